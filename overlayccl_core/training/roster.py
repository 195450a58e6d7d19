"""The arms of a model for its launches: the modules of each site, and the beginnings of their stamps.

Among arms with the same modules only the plainest is trained; the others take over its results (`ran_as`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from overlayccl_core.backends.backend import Backend
from overlayccl_core.backends.plan import MODULES
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model, Site, sites_of
from overlayccl_core.measuring.arms import ArmName, at_case
from overlayccl_core.measuring.frameworks import FrameworkArm, framework_arm
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.problem import Direction
from overlayccl_core.training.launches import Training, arm_site, module_name
from overlayccl_core.training.plan import Arm, ArmSite, StepSettings

Row = dict[str, Any]


class Roster:
    """Arms of a model, the sources of their modules, and the beginnings of their stamps.

    Args:
        programs: Rows of `finalists`, or rows of other arms with their case, direction, arm, candidate, program
            and program_json.
    """

    def __init__(
        self, model: Model, deployment: Deployment, backend: Backend, programs: Iterable[Row]
    ) -> None:
        self.model = model
        self.deployment = deployment
        self.backend = backend
        self._programs: dict[tuple[str, Direction], dict[str, Row]] = {}
        for row in programs:
            place = row["case"], Direction(row["direction"])
            self._programs.setdefault(place, {})[row["arm"]] = row
        self.arms: list[Arm] = []
        self.sources: dict[str, str] = {}
        self.begun: list[Row] = []  # of `stamps`: the planned Programs, before the ranks' reports
        self._trained: dict[tuple[int, tuple[str, ...]], str] = {}

    def add(
        self, microbatches: int, names: Sequence[str], purposes: Callable[[str], Sequence[Purpose]]
    ) -> None:
        """Add the arms with a Program at every site."""
        for name in names:
            at_sites = self._at_sites(microbatches, name)
            if at_sites is None:
                continue
            programs = tuple(row["program"] for _, _, row in at_sites)
            ran_as = self._trained.setdefault((microbatches, programs), name)
            modules = tuple(self._site(name, ran_as, microbatches, *where) for where in at_sites)
            if ran_as == name:
                wanted = tuple(purposes(name))
                self.arms.append(Arm(name=name, microbatches=microbatches, sites=modules, purposes=wanted))

    def add_deployed(self, microbatches: int, files: Mapping[str, str]) -> None:
        """Add the arm `deployed`, its Programs from the deployed files (problem -> source), if all are there."""
        at_sites = self._at_sites(microbatches, ArmName.DEPLOYED)
        if at_sites is None or any(case.problem not in files for _, case, _ in at_sites):
            return
        modules = []
        for site, case, row in at_sites:
            path = f"{MODULES}/deployed_{case.problem}.py"
            self.sources[path] = files[case.problem]
            modules.append(
                self._site(ArmName.DEPLOYED, ArmName.DEPLOYED, microbatches, site, case, row, path)
            )
        self.arms.append(Arm(name=ArmName.DEPLOYED, microbatches=microbatches, sites=tuple(modules)))

    def add_framework(self, microbatches: int, names: Collection[str] | None = None) -> None:
        """Add the framework's own arms that the model asks for and the backend can run.

        Args:
            names: Add only these (None: all that the bench does not speak against).
        """
        best = self._best_known_ways(microbatches)
        for way in map(framework_arm, self.model.framework_arms if self.backend.FRAMEWORK_ARMS else ()):
            if way is None or (names is not None and way.name not in names):
                continue
            if names is None and (way.not_if in best or (way.only_if and way.only_if not in best)):
                continue
            if self._can_run(way, microbatches):
                self.arms.append(Arm(name=way.name, microbatches=microbatches))

    def _can_run(self, way: FrameworkArm, microbatches: int) -> bool:
        """Whether the framework's arm can run here and equals no other one."""
        divided = getattr(self.model, way.divided) if way.divided else 0
        return (
            way.least_microbatches <= microbatches
            and way.least_nodes <= self.deployment.nodes
            and not divided % self.deployment.ranks
        )

    def _best_known_ways(self, microbatches: int) -> set[str]:
        """The names of the known ways that are the bench's best at the model's Cases."""
        cases = {case.id for case in cases_of_model(self.model, self.deployment, microbatches).values()}
        found = (
            arms.get(ArmName.BEST_KNOWN_WAY) for (case, _), arms in self._programs.items() if case in cases
        )
        return {row["candidate"] for row in found if row is not None}

    def leave_unweighed(self, known: Collection[tuple[int, str]]) -> None:
        """Do not count again the memory of these arms: (count of microbatches, arm)."""
        self.arms = [replace(arm, weighed=(arm.microbatches, arm.name) not in known) for arm in self.arms]

    def training(
        self,
        settings: StepSettings,
        launches: int,
        *,
        narrows: bool = False,
        enough: Callable[[Sequence[Row]], bool] | None = None,
    ) -> Training:
        """Return the Training of these arms; `narrows` and `enough` as there."""
        return Training(
            model=self.model,
            arms=tuple(self.arms),
            sources=self.sources,
            deployment=self.deployment,
            fingerprint=self.backend.fingerprint(self.deployment),
            settings=settings,
            launches=launches,
            narrows=narrows,
            enough=enough,
        )

    def stamps(self, trained: Sequence[Row]) -> list[Row]:
        """Return the rows of `stamps` of the trained arms, taken out of the rows of their launches."""
        told: dict[tuple[int, str], Row] = {}
        for row in trained:
            told.setdefault((row["microbatches"], row["arm"]), row.pop("stamps"))
        return [
            {**stamp, "library": self.deployment.library, **of_arm[stamp["site"]]}
            for stamp in self.begun
            if (of_arm := told.get((stamp["microbatches"], stamp["ran_as"])))
        ]

    def _at_sites(self, microbatches: int, arm: str) -> list[tuple[Site, Case, Row]] | None:
        """(site, its Case, the arm's Program there) of every site; None if one is missing.

        ValueError: Not even the developer's is there.
        """
        cases = cases_of_model(self.model, self.deployment, microbatches)
        found = []
        for site in sites_of(self.model, microbatches, self.deployment.ranks):
            here = self._programs.get((cases[site.name].id, site.direction), {})
            if ArmName.DEVELOPER not in here:
                raise ValueError(
                    f"model {self.model.name}, site {site.name}: table finalists has no developer's Program of "
                    f"{cases[site.name].id} {site.direction}: run the rule `finalists` again with this model "
                    "configured"
                )
            plain = here[ArmName.DEVELOPER]
            silent = not loads(
                plain["program_json"]
            ).collectives  # there is nothing to choose: it is every arm's
            if (row := plain if silent else at_case(here, arm, site.problem)) is None:
                return None
            found.append((site, cases[site.name], row))
        return found

    def _site(
        self,
        arm: str,
        ran_as: str,
        microbatches: int,
        site: Site,
        case: Case,
        row: Row,
        deployed: str | None = None,
    ) -> ArmSite:
        program = loads(row["program_json"])
        if deployed is None:
            self.sources[module_name(program.digest)] = self.backend.emit(program)
        self.begun.append(
            {
                "model": self.model.name,
                "microbatches": microbatches,
                "arm": arm,
                "ran_as": ran_as,
                "site": site.name,
                "problem": case.problem,
                "case": case.id,
                "direction": program.problem.direction.value,
                "candidate": row["candidate"],
                "program": program.digest,
                "overlaps": overlaps(program),
            }
        )
        return arm_site(site.name, program, case.members(), deployed)
