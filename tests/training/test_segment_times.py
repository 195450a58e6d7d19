"""Times of segments: on real ranks, without calls; and the order of every model's step, without ranks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.launching.node_report import NodeReport
from overlayccl_core.program.lowering import lower
from overlayccl_core.stages.segments import references_of, run
from overlayccl_core.step.price import StepCost, TimedSegment, step_us
from overlayccl_core.step.segment import Outline, StepSegment
from overlayccl_core.tables.plain import rebuilt
from overlayccl_core.tables.segments import SEGMENTS
from overlayccl_core.tables.table import frame_of
from overlayccl_core.training.pieces import pieces_of
from overlayccl_core.training.segment_times import OTHERS, SegmentSamples, cores_of_a_rank, rows_of
from overlayccl_core.training.segment_worker import outline_of, timed

LOCAL_2 = "config/deployments/local-2.yaml"
MODELS = ("nano", "nano-dp", "nano-fsdp", "nano-pp", "nano-parallel", "nano-moe", "nano-moe-v")


@pytest.mark.ranks
def test_a_launch_times_every_segment_at_every_count_of_microbatches(tmp_path: Path) -> None:
    rows = run(load(LOCAL_2), load_model("nano-small"), tmp_path / ".partial", progress=lambda _: None)
    frame = frame_of(rows, SEGMENTS.schema, "segments")
    model = load_model("nano-small")
    assert set(frame["microbatches"]) == set(model.microbatches)
    for m in model.microbatches:
        of_m = frame.filter(microbatches=m, early=False, leaves_work=False)
        names = {rebuilt(Outline, text).name for text in of_m["outline_json"]}
        passes = {
            (kind, i, layer)
            for kind in ("forward", "backward")
            for i in range(m)
            for layer in range(2 * model.layers)
        }
        assert names == passes | {("loss", i) for i in range(m)} | {OTHERS.name}
    assert (frame["low_us"] > 0).all() and (frame["low_us"] <= frame["high_us"]).all()
    left = frame.filter(leaves_work=True)["outline_json"]
    assert any(rebuilt(Outline, text).left_over for text in left)


def test_a_segment_takes_the_time_of_its_work_and_gives_what_the_work_gives() -> None:
    ticks = iter(range(0, 1000, 10))
    taken: dict[Outline, list[int]] = {}
    work = StepSegment(name=("s", 1), gives=(("site", ("x",)),), work=lambda _: {("site", ("x",)): 5})

    def segments() -> Iterator[StepSegment]:
        yield work

    for _ in range(2):
        [one] = timed(segments(), lambda: next(ticks), taken)
        assert one.work({}) == {("site", ("x",)): 5}
    assert taken == {Outline(name=("s", 1), gives=(("site", ("x",)),)): [10, 10]}


def test_a_row_has_the_quartiles_over_steps_of_the_mean_over_ranks() -> None:
    def of_rank(*ns: int) -> list[SegmentSamples]:
        outline = Outline(name=("forward", 0))
        return [SegmentSamples(microbatches=2, early=True, leaves_work=False, outline=outline, ns=ns)]

    [row] = rows_of("m", [of_rank(1000, 2000, 3000), of_rank(3000, 4000, 8000)], 0.5, "f")
    assert (row["low_us"], row["duration_us"], row["high_us"]) == (2.5, 3.0, 4.25)
    assert (row["segment"], row["microbatches"], row["early"], row["cores"]) == ("forward[0]", 2, True, 0.5)


def test_ranks_share_the_cores_of_their_host() -> None:
    local = load("config/deployments/local.yaml")
    assert cores_of_a_rank(local, NodeReport(fewest_cores=2)) == 0.5
    assert cores_of_a_rank(local, NodeReport(fewest_cores=64)) == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("early", [False, True])
def test_the_references_at_its_sites_walk_through_every_models_step(name: str, early: bool) -> None:
    """So a launch can time its segments; and every segment has its place in the price."""
    model, local = load_model(name), load("config/deployments/local.yaml")
    microbatches = max(model.microbatches)
    modules = {
        site: (program, [(step, StepCost(us=0)) for step in lower(program)])
        for site, program in references_of(model, local, microbatches).items()
    }
    cls = pieces_of(model)
    pieces = cls(model, cls.full_parameters(model, 0), 0, local.ranks)
    pieces.leaves_work = early
    batch = cls.split(cls.feed(model, seed=0, step=0, rank=0, ranks=local.ranks), microbatches)
    outlines = [outline_of(one) for one in pieces.step(batch, early=early).segments()]
    us = step_us(modules, [TimedSegment(outline=one, us=1.0) for one in outlines])
    assert us == pytest.approx(len(outlines))
