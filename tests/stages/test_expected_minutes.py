"""How long a long run says that it takes, before it begins."""

from overlayccl_core.configuration.settings import read
from overlayccl_core.evidence.splits import Split
from overlayccl_core.gates.training import ArmEvidence
from overlayccl_core.stages.longtrain import expected


def split(arm: str, us: float, microbatches: int = 1) -> Split:
    seen = ArmEvidence(
        arm=arm,
        steps_us={0: (us, us)},
        losses={},
        timed_losses={},
        gradient_rel_error=None,
        matmuls=frozenset(),
    )
    return Split(microbatches=microbatches, arm=arm, ran_as=arm, needs_search=False, seen=seen)


def test_every_course_takes_as_many_steps_and_the_deployed_file_those_of_the_choice() -> None:
    asked = read().longrun.changed(steps=600, seeds=5)
    splits = [split("developer", 1e5), split("finalist_1", 5e4), split("developer", 9e9, microbatches=2)]
    said = expected(["developer", "deployed"], asked, splits, {1: "finalist_1"}, 1)
    # five courses of developer's at 0.1 s and one at 0.05 s, of 600 steps
    assert said.startswith("6 courses of 600 steps") and "about 5.5 minutes" in said


def test_an_arm_that_was_not_timed_takes_at_most_as_long_as_the_slowest() -> None:
    asked = read().longrun.changed(steps=600, seeds=1)
    said = expected(["developer", "ddp_25"], asked, [split("developer", 1e5)], {}, 1)
    assert "about 2 minutes" in said
