"""Numbers of bytes in binary units: read and written."""

import pytest

from overlayccl_core.configuration.sizes import bytes_text, in_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64KiB", 65536),
        ("2 MiB", 2**21),
        ("3B", 3),
        ("1GiB", 2**30),
        (17, 17),
        ("0.5GiB", 2**29),
        ("1.5KiB", 1536),
    ],
)
def test_sizes_are_numbers_of_bytes_or_texts_with_a_binary_unit(text: object, size: int) -> None:
    assert in_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["64", "64KB", "1.3KiB", "-1B", "0KiB", 0, -4, True, None, 2.0, "3 Mb", "1\nB"]
)
def test_other_sizes_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"a size .*64KiB.*\(got "):
        in_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(1, "1B"), (1023, "1023B"), (1024, "1KiB"), (1536, "1.5KiB"), (2**21, "2MiB"), (2**30, "1GiB")],
)
def test_what_is_printed_is_read_again(size: int, text: str) -> None:
    assert bytes_text(size) == text
    assert in_bytes(text) == size
