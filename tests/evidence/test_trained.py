"""What the training gate is asked about an arm: the numerics of all its sites, also of those of other Problems."""

import polars as pl

from overlayccl_core.evidence.trained import Ran, arms_by_model, judged
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.tables.steps import STAMPS, STEPS
from tests.gates.training_evidence import arm
from tests.rows import row
from tests.small_problems import exchange, strategy

MODEL = "tiny m2"
NO_STAMPS = pl.DataFrame(schema=STAMPS.schema)


def gathered() -> Program:
    """A Program that sums nothing."""
    body = 'io.write("y", all_gather(io.read("x")))'
    return trace_source(strategy(body, "all_gather"), "tried", exchange(2, {"x": (4,)}, {"y": (8,)}))


def stamps(*sites: tuple[str, str]) -> pl.DataFrame:
    """(case, digest) of each site of finalist_1."""
    row = {
        "model": "tiny",
        "microbatches": 2,
        "arm": "finalist_1",
        "ran_as": "finalist_1",
        "direction": "forward",
    }
    return pl.DataFrame([{**row, "case": case, "program": digest} for case, digest in sites])


def failures(sites: pl.DataFrame, numerics: NumericsClass) -> set[str]:
    """Reasons why finalist_1, whose losses differ from the developer's by rounding, fails."""
    arms = {"developer": arm("developer", 2000.0), "finalist_1": arm("finalist_1", 1000.0, change=1e-6)}
    ran = Ran(case="here", direction="forward", program=gathered(), numerics=numerics)
    verdicts = judged(MODEL, "finalist_1", arms, sites, lambda _arm: [ran])
    return {verdict.reason.value for verdict in verdicts if verdict.outcome is not Outcome.PASS}


def test_equal_losses_are_asked_only_where_all_sites_are_exact() -> None:
    program = gathered()
    assert {x.kind for x in program.collectives} == {Kind.ALL_GATHER}
    here, elsewhere = ("here", program.digest), ("another Problem's", "0123")
    assert failures(stamps(here), NumericsClass.EXACT) == {"other_losses"}
    assert failures(stamps(here), NumericsClass.REORDERED) == set()
    assert failures(stamps(here, elsewhere), NumericsClass.EXACT) == set()


def test_another_program_or_none_at_all_is_unproven() -> None:
    for sites in (stamps(("here", "another")), stamps(("another Problem's", "0123"))):
        assert failures(sites, NumericsClass.REORDERED) == {"not_measured"}


def test_losses_of_all_ranks_reach_the_gate() -> None:
    losses = [[2.0, 3.0], [1.0, 1.5]]
    rows = [
        row(STEPS, model="tiny", microbatches=2, arm="developer", purpose=purpose, seed=7, launch=1,
            steps_us=[1.0], losses=losses, disturbed=False, status="trained")
        for purpose in ("timed", "loss")
    ]  # fmt: skip
    one = arms_by_model(pl.DataFrame(rows, schema=STEPS.schema), NO_STAMPS)[MODEL]["developer"]
    assert one.losses[7] == one.timed_losses[1] == ((2.0, 3.0), (1.0, 1.5))


def test_an_arm_knows_in_which_of_its_timed_launches_others_took_the_cpu() -> None:
    def seen(*disturbed: bool) -> bool:
        rows = [
            row(STEPS, model="tiny", microbatches=2, arm="developer", purpose=purpose, launch=n,
                steps_us=[1.0], losses=[[1.0]], disturbed=bad, status="trained")
            for n, bad in enumerate(disturbed) for purpose in ("timed", "quiet")
        ]  # fmt: skip
        one = arms_by_model(pl.DataFrame(rows, schema=STEPS.schema), NO_STAMPS)[MODEL]["developer"]
        assert one.disturbed_launches == {n for n, bad in enumerate(disturbed) if bad}
        return one.mostly_disturbed

    assert seen(True, True, False) and not seen(True, False) and not seen(False, False, False)
