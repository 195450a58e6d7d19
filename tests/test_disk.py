"""A disk that takes no more: how it is known among other errors, what is said, and room that is there for sure."""

import errno
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core import disk

FULL = Path("/dev/full")  # every write to it fails as on a full disk


def fail_to_write() -> None:
    with FULL.open("w") as file:
        file.write("something")


def test_a_full_disk_is_known_also_behind_what_a_library_made_of_it() -> None:
    with pytest.raises(OSError, match="No space") as full:
        fail_to_write()
    assert disk.refused(full.value) == errno.ENOSPC
    with pytest.raises(ValueError, match="closed") as behind:
        try:
            fail_to_write()
        except OSError as error:
            raise ValueError("closed") from error
    assert disk.refused(behind.value) == errno.ENOSPC
    with pytest.raises(ValueError, match="while") as beside:
        try:
            fail_to_write()
        finally:
            raise ValueError("while it was handled")
    assert disk.refused(beside.value) == errno.ENOSPC


def test_arrays_that_find_no_room_say_so(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space") as error:
        np.savez(small_disk / "arrays.npz", x=np.random.default_rng(0).random(1_000_000))
    assert disk.refused(error.value) == errno.ENOSPC


@pytest.mark.parametrize(
    "error", [FileNotFoundError(errno.ENOENT, "no such file"), ValueError("no"), ConnectionResetError("peer")]
)
def test_other_errors_are_none_of_the_disk(error: Exception) -> None:
    assert disk.refused(error) == 0


def test_an_error_that_came_from_itself_is_looked_at_once() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    assert disk.refused(one) == 0


def test_what_is_said_names_what_is_free_on_each_disk_once(tmp_path: Path) -> None:
    said = disk.said(errno.ENOSPC, tmp_path / "not" / "there" / "yet", tmp_path)
    assert said.startswith("the disk is full (") and said.count("free in") == 1
    assert said.endswith(f"free in {tmp_path})")
    assert disk.said(errno.EROFS, Path("not/there")).endswith("free in .)")


def test_a_file_has_its_room_at_once(tmp_path: Path) -> None:
    disk.allocate(tmp_path / "stamps", 1_000_000)
    there = (tmp_path / "stamps").stat()
    assert there.st_size == 1_000_000 and there.st_blocks * 512 >= 1_000_000
    assert not any((tmp_path / "stamps").read_bytes())


def test_where_there_is_no_room_the_file_is_refused_and_not_the_write_to_it(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space") as error:
        disk.allocate(small_disk / "stamps", 2 * 2**20)
    assert disk.refused(error.value) == errno.ENOSPC
