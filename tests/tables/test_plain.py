"""Plain data comes back as it was, and in no other form."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.tables.plain import of_data, plain


@dataclass(frozen=True)
class _Inner:
    seconds: float


@dataclass(frozen=True)
class _Outer:
    ranks: int
    folder: Path
    names: tuple[str, ...]
    inner: _Inner
    least: int | None = None


GIVEN = _Outer(ranks=2, folder=Path("a/b"), names=("x", "y"), inner=_Inner(1.0))


def test_what_was_written_comes_back() -> None:
    assert of_data(_Outer, plain(GIVEN)) == GIVEN


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ranks": "2"}, "ranks"),
        ({"ranks": True}, "ranks"),
        ({"ranks": 2.0}, "ranks"),
        ({"names": "xy"}, "names"),
        ({"inner": {"seconds": "nan"}}, "inner.seconds"),
        ({"rank": 2}, "rank"),
    ],
)
def test_another_form_is_refused_by_the_name_of_its_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        of_data(_Outer, plain(GIVEN) | change)


def test_a_field_that_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="names"):
        of_data(_Outer, {name: value for name, value in plain(GIVEN).items() if name != "names"})
