"""Times of a model's segments: one launch whose steps call no library, and the rows of table `segments`.

Local work is in place of every call. The order of a step has no effect on its segments, so any Programs will do
that walk through it.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model
from overlayccl_core.launching.launch import Launch
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.locks import machine_lock
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Program
from overlayccl_core.step.segment import Outline
from overlayccl_core.tables.plain import plain, rebuilt
from overlayccl_core.timing.partial import Evidence, at_work, key
from overlayccl_core.timing.reporting import Reporter
from overlayccl_core.training.launches import STEP_TIMEOUT_S, arm_site, module_name
from overlayccl_core.training.plan import Arm, StepSettings, TrainingPlan

WORKER = "overlayccl_core.training.segment_worker"
OTHERS = Outline(name=("others",))  # data, optimizer, and the step driver itself; at the end of a step
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSamples:
    """One rank's times of a segment, a sample a step, at a count of microbatches.

    Attributes:
        early, leaves_work: What the step is asked for (`Pieces.step`, `Pieces.leaves_work`): its segments differ.
        ns: Time on the rank's core.
    """

    microbatches: int
    early: bool
    leaves_work: bool
    outline: Outline
    ns: tuple[int, ...]


def time_segments(
    model: Model,
    deployment: Deployment,
    programs: Mapping[int, Mapping[str, Program]],
    steps: int,
    partial_dir: Path,
    batch_name: str,
    code: str,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `segments` of a model.

    Args:
        programs: Count of microbatches -> site -> Program, in the driver's order of preference.
        steps: Of each kind, after the cold ones.

    Raises:
        LaunchError: Ranks die or hang (a ValueError).
    """
    arms, sources = _arms(deployment, programs)
    settings = StepSettings(seconds=0.0, minimum_steps=steps, maximum_steps=steps)
    plan = TrainingPlan(launch=0, ranks=deployment.ranks, model=model, settings=settings, arms=arms)
    fingerprint = backend_of(deployment).fingerprint(deployment)
    of = key(
        model.identity(), [asdict(arm) for arm in arms], sorted(sources.items()), steps, fingerprint, code
    )
    folder = Path(partial_dir) / f"{batch_name}-{of}" / "launch-0"
    with machine_lock(progress), at_work(folder, Evidence.beside(partial_dir, batch_name)) as work:
        plan.write(work, sources)
        launch = Launch(
            worker=WORKER,
            folder=work,
            ranks=plan.ranks,
            names=tuple(arm.label for arm in arms),
            step_timeout_s=STEP_TIMEOUT_S,
        )
        reporter = Reporter(f"segments of {model.name}", lambda: None, progress)
        backend_of(deployment).train(deployment, launch, reporter.watch)
        cores = cores_of_a_rank(deployment, NodeReport.read(work))
        return rows_of(model.name, read_samples(work, plan.ranks), cores, fingerprint)


def cores_of_a_rank(deployment: Deployment, told: NodeReport) -> float:
    """Return a rank's share of the cores of its host, at most 1."""
    needs = backend_of(deployment).needs_cores(deployment)
    return min(1.0, told.cores / deployment.ranks_per_node) if needs else 1.0


def write_samples(folder: Path, rank: int, samples: Sequence[SegmentSamples]) -> None:
    """Write the samples of a rank."""
    (folder / f"rank-{rank}.json").write_text(json.dumps([plain(one) for one in samples]))


def read_samples(folder: Path, ranks: int) -> list[list[SegmentSamples]]:
    """Read the samples, [rank][segment], with the same segments on every rank."""
    texts = [(folder / f"rank-{rank}.json").read_text() for rank in range(ranks)]
    return [rebuilt(list[SegmentSamples], text) for text in texts]


def rows_of(
    model: str, samples: Iterable[Sequence[SegmentSamples]], cores: float, fingerprint: str
) -> list[Row]:
    """Build the rows: a segment's quartiles over steps, each the mean over ranks."""
    rows = []
    for ranks in zip(*samples, strict=True):
        first = ranks[0]
        of_ranks = [np.percentile(one.ns, (25, 50, 75)) for one in ranks]
        low, median, high = (np.mean(of_ranks, axis=0) / 1e3).tolist()
        rows.append(
            {
                "model": model,
                "microbatches": first.microbatches,
                "early": first.early,
                "leaves_work": first.leaves_work,
                "segment": port_text(first.outline.name),
                "outline_json": json.dumps(plain(first.outline)),
                "low_us": low,
                "duration_us": median,
                "high_us": high,
                "cores": cores,
                "fingerprint": fingerprint,
            }
        )
    return rows


def _arms(
    deployment: Deployment, programs: Mapping[int, Mapping[str, Program]]
) -> tuple[tuple[Arm, ...], Mapping[str, str]]:
    """An arm for each count of microbatches, and the sources of its modules."""
    arms, sources = [], {}
    for microbatches, at_sites in programs.items():
        for program in at_sites.values():
            sources[module_name(program.digest)] = backend_of(deployment).emit(program)
        sites = tuple(
            arm_site(site, program, program.problem.case.members()) for site, program in at_sites.items()
        )
        arms.append(Arm(name=ArmName.DEVELOPER, microbatches=microbatches, sites=sites))
    return tuple(arms), sources
