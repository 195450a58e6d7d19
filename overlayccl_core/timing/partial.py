"""Where the launches of a rule are kept, until its tables are written and recorded.

<partial>/<rule>-<key>/   a batch: what its launches gave, until the rule's table is written
<partial>/written/        batches whose tables are written, until Snakemake has recorded that
  launch-<k>/             a launch at work, or what a dead run left of one
<logs>/<rule>.failure-<k>/ evidence of the k-th launch that failed, from 0: its log, its ranks' tracebacks
"""

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlayccl_core import disk
from overlayccl_core.launching.launch import Failure, LaunchError
from overlayccl_core.launching.parts import LOG_FILE
from overlayccl_core.tables import records
from overlayccl_core.tables.atomic import write_bytes

KEY_DIGITS = 16  # of the digest that a batch's folder ends in
LOGS = "logs"
PARTIAL = ".partial"  # beside them: batches of launches
AWAY, MADE = "written", "made.json"  # in it: those whose tables are written, and which tables
GOING = "."  # begins the name of one that is being removed


def key(*parts: Any) -> str:
    """Digest of all that decides what a batch's figures mean: plain data."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=KEY_DIGITS // 2).hexdigest()


def forget(partial_dir: Path, rule: str, outputs: Iterable[Path]) -> None:
    """Put away the batches of a rule: its tables are written, so whoever runs it again wants new samples.

    They go for good once Snakemake has recorded that (`settle`): if it is killed before, it has the rule run again.
    """
    made = json.dumps([file.as_posix() for file in outputs]).encode()
    for folder in Path(partial_dir).glob(f"{rule}-{'[0-9a-f]' * KEY_DIGITS}"):
        away = Path(partial_dir) / AWAY / folder.name
        shutil.rmtree(away, ignore_errors=True)
        away.parent.mkdir(exist_ok=True)
        write_bytes(folder / MADE, made)
        folder.replace(away)


def settle(partial_dir: Path) -> None:
    """Of batches that were put away, remove those whose tables are there and recorded, and have the others back.

    It may be killed anywhere: what is to go is first renamed, so that nothing is ever taken for a whole batch.
    """
    for away in sorted((Path(partial_dir) / AWAY).glob("*")):
        back = Path(partial_dir) / away.name
        if away.name.startswith(GOING):
            shutil.rmtree(away)
        elif back.exists() or _recorded(away / MADE):
            shutil.rmtree(away.rename(away.with_name(GOING + away.name)))
        else:
            away.replace(back)
            (back / MADE).unlink(missing_ok=True)
    with suppress(OSError):
        (Path(partial_dir) / AWAY).rmdir()


def _recorded(made: Path) -> bool:
    """Whether all tables that a batch has made are there, and their job is recorded; False where nothing tells.

    A job that fails after it wrote its tables loses them: Snakemake removes what it does not trust.
    """
    try:
        tables = [Path(one) for one in json.loads(made.read_text())]
    except (FileNotFoundError, ValueError):
        return False
    return all(one.exists() and not records.is_incomplete(one) for one in tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where launches of a rule leave what their ranks said when they failed: <logs>/<name>.failure-<k>/."""

    logs: Path
    name: str

    @classmethod
    def beside(cls, partial_dir: Path, name: str) -> "Evidence":
        """In the folder of logs of the same results."""
        return cls(logs=Path(partial_dir).parent / LOGS, name=name)

    def clear(self) -> None:
        """Forget what an earlier run of the rule left."""
        for folder in self.logs.glob(f"{self.name}.failure-*"):
            shutil.rmtree(folder)

    def keep(self, work: Path, ranks: Sequence[int] = (), log: str = LOG_FILE) -> Path:
        """Copy a launch's logs and tracebacks; returns the file to read first: of `ranks`, else `log`."""
        folders = (self.logs / f"{self.name}.failure-{k}" for k in itertools.count())
        folder = next(one for one in folders if not one.exists())
        folder.mkdir(parents=True)
        for pattern in (f"{Path(LOG_FILE).stem}*", "rank-*.error"):  # logs: of each node
            for file in sorted(work.glob(pattern)):
                shutil.copy(file, folder)
        first = (folder / name for name in (*(f"rank-{rank}.error" for rank in ranks), log))
        return next((file for file in first if file.exists()), folder / LOG_FILE)


@contextmanager
def at_work(folder: Path, evidence: Evidence, *, found_again: bool = False) -> Iterator[Path]:
    """An empty folder for one launch; it goes when the launch ends. What a dead run left there goes before.

    A LaunchError comes out naming the file in which its evidence is kept. found_again: what was measured is found
    in the folder later, so that stays where the machine takes no more files.
    """
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    stays = False
    try:
        yield folder
    except LaunchError as error:
        if error.evidence is not None or error.kind is Failure.DISK:
            raise
        raise error.kept_at(evidence.keep(folder, error.ranks, error.log)) from None
    except OSError as error:
        stays = found_again and bool(disk.refused(error))
        raise
    finally:
        if not stays:
            shutil.rmtree(folder)
