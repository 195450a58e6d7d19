"""A deterministic archive: a tar of sorted names without the packer's identity, compressed with Zstandard."""

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from overlayccl_core.tables.atomic import replacing

SUFFIX = ".tar.zst"
ZSTANDARD = ".".join(map(str, zstandard.ZSTD_VERSION))  # another version may give other bytes
LEVEL = 12  # of Zstandard's 22: above it seconds grow, bytes hardly shrink
CHUNK_BYTES = 2**20
LARGEST_BYTES = 2**36  # unpacked; no results tree of ours is larger
MODE = 0o644

Content = Mapping[str, "Path | bytes | Link"]
"""Name in the archive -> a file to read, bytes, or a link."""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, with a target relative to its place."""

    target: str


def pack(content: Content, folder: str, when: int, target: Path) -> None:
    """Write an archive atomically: equal content, equal bytes. Its times are `when`, in Unix seconds."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with (
        replacing(target) as file,
        compressor.stream_writer(file, closefd=False) as into,
        tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(content):
            what = content[name]
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.mtime, entry.mode = when, MODE
            if isinstance(what, Link):
                entry.type, entry.linkname = tarfile.SYMTYPE, what.target
                tar.addfile(entry)
            else:
                data = what if isinstance(what, bytes) else what.read_bytes()
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an archive and return its folder, below `into`. ValueError: it is none of ours, damaged or cut."""
    try:
        stream = io.BufferedReader(_Stream(archive))
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for entry in tar:
                if not (entry.isfile() or entry.issym()):
                    raise ValueError(f"{entry.name} is neither a file nor a link")
                tar.extract(entry, into, filter="data")
        while stream.read(CHUNK_BYTES):  # read the padding, so that tar_chunks checks the end
            pass
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise ValueError(f"{archive}: not a whole archive of a results tree: {error}") from None
    folders = list(into.iterdir())
    if len(folders) != 1 or not folders[0].is_dir():
        raise ValueError(f"{archive}: holds {len(folders)} things where one folder is due")
    return folders[0]


def tar_chunks(archive: Path) -> Iterator[bytes]:
    """Yield the uncompressed archive in pieces. ZstdError, EOFError or ValueError if it is damaged."""
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    held = 0
    with archive.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if decompressor.eof:
                raise ValueError("something stands behind its end")
            told = decompressor.decompress(chunk)
            held += len(told)
            if held > LARGEST_BYTES:
                raise ValueError(f"it holds more than {LARGEST_BYTES} bytes")
            yield told
    if not decompressor.eof:
        raise EOFError("it is cut")
    if decompressor.unused_data:
        raise ValueError("something stands behind its end")


class _Stream(io.RawIOBase):
    """The output of `tar_chunks` as a readable file."""

    def __init__(self, archive: Path) -> None:
        self._chunks, self._rest = tar_chunks(archive), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
