"""Arms of a model made from strategies by hand, as a training launch runs them."""

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.torchdist import deployed
from overlayccl_core.configuration.cases import cases_of_model
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, sites_of
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.evidence.trained import arms_by_model
from overlayccl_core.gates import training as gate
from overlayccl_core.gates.verdict import Reason
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import COLLECTIVES
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.rewrites.apply import Step, apply
from overlayccl_core.rewrites.classes import site_classes
from overlayccl_core.tables.steps import STAMPS
from overlayccl_core.training.launches import Training, arm_site, module_name
from overlayccl_core.training.plan import Arm, StepSettings
from tests.emit.deployed_modules import case_of_ways, way
from tests.training.in_process import problem_at, replayed

RANKS = 2


class Arms:
    """Arms of a model made from strategies, and the sources of their modules. cheats: source of more strategies."""

    def __init__(
        self, model: Model, cheats: str = "", deployment: str | Deployment = f"local-{RANKS}"
    ) -> None:
        self.model = model
        self.cheats = cheats
        named = isinstance(deployment, str)
        self.deployment = load(f"config/deployments/{deployment}.yaml") if named else deployment
        self.arms: list[Arm] = []
        self.sources: dict[str, str] = {}

    def add(
        self,
        name: str,
        purposes: tuple[Purpose, ...] = (Purpose.TIMED,),
        *,
        microbatches: int = 2,
        rewrite: Step | None = None,
        **strategies: str,
    ) -> None:
        """strategies: site or Problem -> a known way's name, or one of the cheats, else the developer's; rewrite:
        applied where its class is."""
        cases = cases_of_model(self.model, self.deployment, microbatches)
        sites = []
        for site in sites_of(self.model, microbatches, self.deployment.ranks):
            named = strategies.get(site.name, strategies.get(site.problem))
            program = self._program(cases[site.name], site.direction, named)
            if rewrite and rewrite[1] in site_classes(program, COLLECTIVES):
                program = apply(program, rewrite)
            self.sources[module_name(program.digest)] = backend_of(self.deployment).emit(program)
            sites.append(arm_site(site.name, program, cases[site.name].members()))
        self.arms.append(Arm(name=name, microbatches=microbatches, sites=tuple(sites), purposes=purposes))

    def add_deployed(self, microbatches: int = 2, **strategies: str) -> None:
        """The same from deployed files, one a Problem. strategies: Problem -> known way."""
        cases = cases_of_model(self.model, self.deployment, microbatches)
        stamp = Stamp(library=self.deployment.library, versions={"torch": metadata.version("torch")})
        for problem, strategy in strategies.items():
            of_problem = {case.id: case for case in cases.values() if case.problem == problem}
            self.sources[_file(problem, microbatches)] = deployed.deployed(
                problem, [_deployed_case(case, strategy) for case in of_problem.values()], stamp
            )
        sites = []
        for site in sites_of(self.model, microbatches, self.deployment.ranks):
            case = cases[site.name]
            program = _known_way(problem_at(case, site.direction), strategies[case.problem])
            sites.append(arm_site(site.name, program, case.members(), _file(case.problem, microbatches)))
        self.arms.append(Arm(name=ArmName.DEPLOYED, microbatches=microbatches, sites=tuple(sites)))

    def _program(self, case: Case, direction: Direction, strategy: str | None) -> Program:
        problem = problem_at(case, direction)
        if f"def {strategy}(" in self.cheats:
            return trace_source(self.cheats, strategy, problem)
        return _known_way(problem, strategy)

    def training(self, launches: int, **settings: Any) -> Training:
        given: dict[str, Any] = {"seconds": 0.5, "minimum_steps": 2, "maximum_steps": 3}
        given |= {"loss_steps": 3, "loss_seeds": (0, 1), **settings}
        return Training(
            model=self.model,
            arms=tuple(self.arms),
            sources=self.sources,
            deployment=self.deployment,
            fingerprint="test",
            settings=StepSettings(**given),
            launches=launches,
        )


def failures(rows: Sequence[Mapping[str, Any]]) -> dict[str, set[Reason]]:
    """arm -> why the training gate rejects it, beside developer's or the first one. rows: of one count."""
    frame = pl.DataFrame([{k: v for k, v in row.items() if k != "stamps"} for row in rows])
    [arms] = arms_by_model(frame, pl.DataFrame(schema=STAMPS.schema)).values()
    plain = arms.get("developer", next(iter(arms.values())))
    trials = {
        name: gate.ArmOnTrial(arm=arm, developer=plain, numerics=NumericsClass.REORDERED)
        for name, arm in arms.items()
    }
    return {
        name: {verdict.reason for verdict in gate.judge(trial) if verdict.outcome is Outcome.FAIL}
        for name, trial in trials.items()
    }


def _known_way(problem: Problem, strategy: str | None) -> Program:
    """The developer's if none is named, and of a backward that is no transpose."""
    of_its_own = problem.direction is Direction.BACKWARD and not problem.linear
    return (
        catalog.developer_program(problem) if strategy is None or of_its_own else replayed(problem, strategy)
    )


def _file(problem: str, microbatches: int) -> str:
    return f"modules/deployed_{problem}_{microbatches}.py"


def _deployed_case(case: Case, strategy: str) -> DeployedCase:
    """A Case with a known way in both directions, the same as its plain calls."""
    of_backward = catalog.backward(case)
    forward = _known_way(problem_at(case, Direction.FORWARD), strategy)
    backward = _known_way(of_backward, strategy) if of_backward is not None else None
    both = way(strategy, forward, backward)
    return case_of_ways(both, both)
