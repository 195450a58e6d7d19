"""An archive's bytes are a function of its content, and nothing else can be read as one."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from overlayccl_core.archiving import packing, verify
from overlayccl_core.archiving.findings import CheckOutcome
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.archiving.packing import Link, pack, unpack
from tests.archiving.test_crate import SAID

CONTENT: dict[str, Path | bytes | Link] = {
    "results/a/one.txt": b"one\n" * 2000,
    "results/a/empty": b"",
    "here": Link("results/a"),
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    target = tmp_path / "a.tar.zst"
    pack(CONTENT, "folder", 1_700_000_000, target)
    return target


def test_equal_content_gives_equal_bytes_whatever_its_order_and_its_files(
    archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").write_bytes(b"one\n" * 2000)
    (tmp_path / "elsewhere").chmod(0o700)
    other = {**dict(reversed(CONTENT.items())), "results/a/one.txt": tmp_path / "elsewhere"}
    pack(other, "folder", 1_700_000_000, tmp_path / "b.tar.zst")
    assert archive.read_bytes() == (tmp_path / "b.tar.zst").read_bytes()


def test_what_is_packed_comes_out(archive: Path, tmp_path: Path) -> None:
    folder = unpack(archive, tmp_path / "out")
    assert folder.name == "folder"
    assert (folder / "results/a/one.txt").read_bytes() == b"one\n" * 2000
    assert (folder / "here").readlink() == Path("results/a")
    assert {p.stat().st_mtime for p in folder.rglob("*") if p.is_file()} == {1_700_000_000}


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        pack({"a": tmp_path / "gone"}, "folder", 0, tmp_path / "a.tar.zst")
    assert not list(tmp_path.iterdir())


@given(st.data())
def test_a_cut_archive_is_refused(data: st.DataObject) -> None:
    held = io.BytesIO()
    with zstandard.ZstdCompressor(write_checksum=True).stream_writer(held, closefd=False) as into:
        into.write(b"x" * 5000)
    whole = held.getvalue()
    place = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    cut = place / "overlayccl-cut.tar.zst"
    try:
        cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        with pytest.raises(ValueError, match="not a whole archive"):
            unpack(cut, place / "overlayccl-cut")
    finally:
        cut.unlink()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", zstandard.compress(b"no tar")])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "a.tar.zst"
    file.write_bytes(data)
    with pytest.raises(ValueError, match="not a whole archive"):
        unpack(file, tmp_path / "out")


def test_what_stands_behind_its_end_is_refused(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"more")
    with pytest.raises(ValueError, match="behind its end"):
        unpack(archive, tmp_path / "out")


def test_an_archive_of_too_much_is_refused(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LARGEST_BYTES", 1000)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        unpack(archive, tmp_path / "out")


def of_one(file: Path, entry: tarfile.TarInfo) -> Path:
    """An archive of one entry."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.addfile(entry, io.BytesIO())
    file.write_bytes(zstandard.compress(held.getvalue()))
    return file


@pytest.mark.parametrize("name", ["../out", "folder/../../out"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    file = of_one(tmp_path / "in" / "a.tar.zst", tarfile.TarInfo(name))
    with pytest.raises(ValueError, match="not a whole archive"):
        unpack(file, tmp_path / "in" / "into")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_only_files_and_links_come_out(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("folder/odd")
    entry.type, entry.linkname = kind, "folder/one"
    with pytest.raises(ValueError, match="neither a file nor"):
        unpack(of_one(tmp_path / "a.tar.zst", entry), tmp_path / "out")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    pack({"out": Link("../../../etc")}, "folder", 0, tmp_path / "a.tar.zst")
    with pytest.raises(ValueError, match="not a whole archive"):
        unpack(tmp_path / "a.tar.zst", tmp_path / "out")


def test_the_bytes_are_those_of_packing_or_the_compression_is_of_another_version(tmp_path: Path) -> None:
    content: dict[str, Path | bytes | Link] = {"a.txt": b"one\n" * 2000}
    about = SAID.changed(zstandard=packing.ZSTANDARD)
    (tmp_path / "unpacked").mkdir()
    archive = tmp_path / "theirs" / "a.tar.zst"

    def outcome(held: dict[str, Path | bytes | Link], about: Manifest = about) -> CheckOutcome:
        return verify._bytes(archive, tmp_path / "unpacked", held, 7, about).outcome

    pack(content, "overlayccl-local", 7, archive)
    assert outcome(content) is CheckOutcome.EXACT
    assert outcome({"a.txt": b"two"}) is CheckOutcome.WRONG
    archive.write_bytes(zstandard.compress(zstandard.decompress(archive.read_bytes(), 2**20), 1))
    assert outcome(content) is CheckOutcome.WRONG
    assert outcome(content, about.changed(zstandard="1.0.0")) is CheckOutcome.WITHIN
