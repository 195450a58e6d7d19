"""One deterministic file of many: a tar of sorted names with nothing of who packed it, compressed by Zstandard."""

import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import zstandard

from overlayccl_core.tables.atomic import replacing

SUFFIX = ".tar.zst"
ZSTANDARD = ".".join(map(str, zstandard.ZSTD_VERSION))  # another may compress to other bytes
LEVEL = 12  # of Zstandard's 22: beyond it seconds grow and bytes hardly shrink
CHUNK_BYTES = 2**20
LARGEST_BYTES = 2**36  # unpacked: more is no results tree of ours
MODE = 0o644

Content = Mapping[str, "Path | bytes | Link"]
"""Name in the archive -> a file to read, bytes, or a link."""


class Writable(Protocol):
    """What a tar is written to."""

    def write(self, data: Any, /) -> object:
        """Take some bytes."""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; its target is relative to where it stands."""

    target: str


def pack(content: Content, folder: str, when: int, target: Path) -> None:
    """Write an archive, whole or not at all: equal content, equal bytes. Times in it are `when`, Unix seconds."""
    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with replacing(target) as file, compressor.stream_writer(file, closefd=False) as compressed:
        write_tar(content, folder, when, compressed)


def write_tar(content: Content, folder: str, when: int, into: Writable) -> None:
    """The archive before it is compressed: all that is in `content`, below one folder."""
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
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
    """The folder that an archive holds, below `into`. ValueError: it is none of ours, damaged or cut."""
    try:
        stream = io.BufferedReader(_Stream(archive))
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for entry in tar:
                if not (entry.isfile() or entry.issym()):
                    raise ValueError(f"{entry.name} is neither a file nor a link")
                tar.extract(entry, into, filter="data")
        while stream.read(CHUNK_BYTES):  # what a tar is padded with; then the end is looked at
            pass
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise ValueError(f"{archive}: not a whole archive of a results tree: {error}") from None
    folders = list(into.iterdir())
    if len(folders) != 1 or not folders[0].is_dir():
        raise ValueError(f"{archive}: holds {len(folders)} things where one folder is due")
    return folders[0]


def tar_chunks(archive: Path) -> Iterator[bytes]:
    """The archive without its compression, in pieces. ZstdError, EOFError or ValueError where it is damaged."""
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
    """What `tar_chunks` gives, as a file to read."""

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
