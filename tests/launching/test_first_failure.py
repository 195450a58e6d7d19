"""Which of the failures that nodes report began it; no ranks."""

import pytest

from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.nodes import first_of

HANG_NS = 1000


def failed(kind: Failure, at_ns: int) -> LaunchError:
    return LaunchError(f"{kind.name} at {at_ns}", kind=kind, ranks=(0,), at_ns=at_ns)


@pytest.mark.parametrize(
    ("others", "began"),
    [
        ([(Failure.RAISED, HANG_NS + 50)], Failure.HUNG),  # its peers were ended
        ([(Failure.RAISED, HANG_NS - 50)], Failure.RAISED),  # what it left hangs
        ([(Failure.RAISED, HANG_NS + 50), (Failure.HUNG, HANG_NS + 100)], Failure.HUNG),
        ([(Failure.CRASHED, HANG_NS - 50), (Failure.RAISED, HANG_NS - 40)], Failure.CRASHED),
        ([(Failure.LAUNCHER, HANG_NS + 50)], Failure.LAUNCHER),
        ([(Failure.CRASHED, HANG_NS - 50), (Failure.DISK, HANG_NS + 50)], Failure.DISK),
    ],
)
def test_what_raises_because_ranks_that_hang_were_ended_began_nothing(
    others: list[tuple[Failure, int]], began: Failure
) -> None:
    reported = [failed(Failure.HUNG, HANG_NS), *(failed(*other) for other in others)]
    assert first_of(reported).kind is first_of(reversed(reported)).kind is began


def test_of_those_that_raised_the_first_began_it() -> None:
    assert first_of([failed(Failure.RAISED, 7), failed(Failure.RAISED, 5)]).at_ns == 5


def test_every_failure_has_a_place_among_others() -> None:
    assert {first_of([failed(kind, 7), failed(Failure.DISK, 9)]).kind for kind in Failure} == {Failure.DISK}
