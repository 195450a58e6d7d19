"""train: the finalists of a model's Problems and all baseline arms, in real training steps on real ranks."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.backends.backend import Backend, backend_of
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model, Site, sites_of
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.measuring.arms import FINALISTS, OF_A_CASE, ArmName, at_case, framework_arm
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.case import Case
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.program import Program
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.training.launches import Training, arm_site, module_name, train
from overlayccl_core.training.plan import Arm, ArmSite, StepSettings

COMPARED_BY_LOSS = (ArmName.DEVELOPER, *FINALISTS)
Row = dict[str, Any]
Steps = dict[str, list[Row]]


def run(
    deployment: Deployment,
    settings: Settings,
    model: Model,
    finalists: Mapping[str, pl.DataFrame],
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> Steps:
    """The rows of `steps` and `stamps`. finalists: of every Problem that the model's sites need."""
    one_fingerprint({f"{name}: finalists": frame for name, frame in finalists.items()}, "the rule bench")
    rows = [row for frame in finalists.values() for row in frame.iter_rows(named=True)]
    backend = backend_of(deployment)
    arms = _Arms(model, deployment, backend, rows)
    for microbatches in model.microbatches:
        arms.add(microbatches)
    training = Training(
        model=model,
        arms=tuple(arms.arms),
        sources=arms.sources,
        deployment=deployment,
        fingerprint=backend.fingerprint(deployment),
        settings=StepSettings(
            seconds=settings.train.seconds,
            minimum_steps=settings.train.minimum_steps,
            maximum_steps=settings.train.maximum_steps,
            loss_steps=settings.train.loss_steps,
            loss_seeds=tuple(range(settings.train.loss_seeds)),
        ),
        launches=settings.train.launches,
    )
    trained = train(training, Path(partial_dir), partial_rule(model.name), code, progress)
    ran = {(row["microbatches"], row["arm"]) for row in trained if row["stamps"]}
    stamps = [
        {**stamp, "library": deployment.library, **_stamp(trained, stamp)}
        for stamp in arms.stamps
        if (stamp["microbatches"], stamp["arm"]) in ran
    ]
    return {"steps": [{k: v for k, v in row.items() if k != "stamps"} for row in trained], "stamps": stamps}


def partial_rule(model: str) -> str:
    """What the folders of a model's launches begin with."""
    return f"train-{model}"


class _Arms:
    """The arms of a model, the sources of their modules, and what stands at which site."""

    def __init__(
        self, model: Model, deployment: Deployment, backend: Backend, finalists: Iterable[Row]
    ) -> None:
        self.model = model
        self.deployment = deployment
        self.backend = backend
        self.finalists: dict[tuple[str, Direction], dict[str, Row]] = {}
        for row in finalists:
            place = row["case"], Direction(row["direction"])
            self.finalists.setdefault(place, {})[row["arm"]] = row
        self.arms: list[Arm] = []
        self.sources: dict[str, str] = {}
        self.stamps: list[Row] = []

    def add(self, microbatches: int) -> None:
        """Baselines and finalists that have a Program at every site, the framework's, and the merged batch."""
        cases = cases_of_model(self.model, self.deployment, microbatches)
        sites = sites_of(self.model, microbatches)
        here = {site.name: self._finalists_at(site, cases[site.name]) for site in sites}
        compared = microbatches == self.model.loss_microbatches
        for name in OF_A_CASE:
            at_sites = {site: at_case(arms, name) for site, arms in here.items()}
            if all(at_sites.values()):
                purposes = [Purpose.TIMED, Purpose.QUIET]
                purposes += [Purpose.LOSS] if compared and name in COMPARED_BY_LOSS else []
                modules = tuple(
                    self._site(
                        name, microbatches, site, cases[site], loads(row["program_json"]), row["candidate"]
                    )
                    for site, row in at_sites.items()
                    if row is not None
                )
                self._arm(name, microbatches, sites=modules, purposes=tuple(purposes))
        for mib in self.model.framework_buckets_mib:
            self._arm(framework_arm(mib), microbatches, ddp_bucket_mib=mib)
        if microbatches > 1:
            developers = {
                (site.problem, site.direction): here[site.name][ArmName.DEVELOPER]["candidate"]
                for site in sites
            }
            self._merged_batch(microbatches, developers)

    def _finalists_at(self, site: Site, case: Case) -> Mapping[str, Row]:
        """Arm -> its finalist at a site; ValueError if not even the developer's is there."""
        finalists = self.finalists.get((case.id, site.direction), {})
        if ArmName.DEVELOPER not in finalists:
            raise ValueError(
                f"model {self.model.name}, site {site.name}: table finalists has no developer's Program of "
                f"{case.id} {site.direction}: run the rule `finalists` again with this model configured"
            )
        return finalists

    def _merged_batch(self, microbatches: int, developers: Mapping[tuple[str, Direction], str]) -> None:
        """The microbatches as one batch through the developer's strategy: another computation, shown beside.

        developers: (problem, direction) -> the name of the candidate.
        """
        merged = self.model.merged(microbatches)
        cases = cases_of_model(merged, self.deployment, 1)
        modules = []
        for site in sites_of(merged, 1):
            case, candidate = cases[site.name], developers[site.problem, site.direction]
            program = catalog.developer_program(catalog.in_direction(case, site.direction))
            modules.append(self._site(ArmName.BIG_BATCH, microbatches, site.name, case, program, candidate))
        purposes = (Purpose.TIMED, Purpose.QUIET)
        self._arm(ArmName.BIG_BATCH, microbatches, sites=tuple(modules), merged_batch=True, purposes=purposes)

    def _arm(self, name: str, microbatches: int, **fields: Any) -> None:
        self.arms.append(Arm(name=name, microbatches=microbatches, **fields))

    def _site(
        self, arm: str, microbatches: int, site: str, case: Case, program: Program, candidate: str
    ) -> ArmSite:
        self.sources[module_name(program.digest)] = self.backend.emit(program)
        self.stamps.append(
            {
                "model": self.model.name,
                "microbatches": microbatches,
                "arm": arm,
                "site": site,
                "problem": case.problem,
                "case": case.id,
                "direction": program.problem.direction.value,
                "candidate": candidate,
            }
        )
        return arm_site(site, program, case.members())


def _stamp(rows: Iterable[Row], where: Row) -> Row:
    """What the module at a site says of itself: its Program, the library that it found, its calls in a step."""
    ran = (r for r in rows if (r["microbatches"], r["arm"]) == (where["microbatches"], where["arm"]))
    return dict(next(ran)["stamps"][where["site"]])
