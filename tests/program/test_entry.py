"""Reading configuration entries of Cases."""

import pytest

from overlayccl_core.program.entry import Entry, size_bytes


@pytest.mark.parametrize(
    ("text", "size"), [("64KiB", 65536), ("2 MiB", 2**21), ("3B", 3), ("1GiB", 2**30), (17, 17)]
)
def test_sizes_are_numbers_of_bytes_or_texts_with_a_binary_unit(text: object, size: int) -> None:
    assert size_bytes(text, "payload") == size


@pytest.mark.parametrize("text", ["64", "64KB", "1.5KiB", "-1B", "0KiB", 0, -4, True, None, 2.0])
def test_other_sizes_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="payload must be a size such as 64KiB"):
        size_bytes(text, "payload")


def test_fields_are_checked_and_named() -> None:
    entry = Entry(
        "some", {"count": 3, "sizes": [1, 2], "kind": "b", "on": True}, known=("count", "sizes", "kind", "on")
    )
    assert (entry.count("count"), entry.counts("sizes"), entry.choice("kind", ("a", "b"))) == (3, (1, 2), "b")
    assert entry.flag("on")
    assert entry.count("other", default=5) == 5
    with pytest.raises(ValueError, match="some: a Case needs 'other'"):
        entry.count("other")
    with pytest.raises(ValueError, match="some: there is no field 'x' of a Case: choose among count"):
        Entry("some", {"x": 1}, known=("count",))
