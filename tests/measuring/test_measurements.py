"""From samples to speed-ups: which way round, and only of samples that are pairs."""

from overlayccl_core.measuring.measurements import Measurement, measurements


def measured(**launches: tuple[float, ...]) -> Measurement:
    return Measurement(
        program="p",
        launches={int(k[1:]): v for k, v in launches.items()},
        oversubscribed=False,
        disturbed_launches=frozenset(),
        fingerprint="here",
    )


def test_half_the_time_is_twice_as_fast() -> None:
    ratio = measured(l0=(5.0, 6.0) * 3).speedup_over(measured(l0=(10.0, 12.0) * 3))
    assert ratio is not None and ratio.low is not None and ratio.high is not None
    assert ratio.value == 2.0 and 1.5 < ratio.low <= 2.0 <= ratio.high < 2.5


def test_pairs_are_of_the_rounds_of_both() -> None:
    mine = measured(l0=(5.0, 5.0), l1=(4.0, 4.0, 4.0))
    ratio = mine.speedup_over(measured(l0=(10.0, 10.0, 90.0), l1=(16.0, 16.0, 16.0)))
    assert ratio is not None and ratio.value == 3.0
    assert mine.speedup_over(measured(l2=(10.0, 10.0, 10.0))) is None


def test_samples_are_mostly_disturbed_where_more_than_half_of_their_launches_are() -> None:
    def seen(*disturbed: bool) -> Measurement:
        fixed = {"program": "p", "samples_us": [1.0, 1.0], "oversubscribed": False, "fingerprint": "here"}
        (one,) = measurements(
            fixed | {"launch": n, "disturbed": bad} for n, bad in enumerate(disturbed)
        ).values()
        return one

    assert seen(True).mostly_disturbed and seen(True, False, True).mostly_disturbed
    assert not seen(True, False).mostly_disturbed and seen(True, False).disturbed
    assert not seen(False, False).disturbed
    assert seen(False, True, True).disturbed_launches == {1, 2}
    assert measurements([{"program": "p", "samples_us": []}]) == {}, "without samples"
