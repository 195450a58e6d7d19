"""The folders of a rule's launches, kept until its tables are written and recorded.

<partial>/<batch_name>-<key>/     a batch: results of its launches, until the rule's table is written
<partial>/written/                batches with written tables, until Snakemake has recorded that
  launch-<k>/                     a launch at work, or the remains of a dead run's launch
<logs>/<batch_name>.failure-<k>/  evidence of the k-th failed launch, from 0: its log, its ranks' tracebacks
"""

import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from overlayccl_core import disk
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.launching.local_ranks import LOG_FILE
from overlayccl_core.tables import records
from overlayccl_core.tables.atomic import write_bytes

KEY_DIGITS = 16  # of the digest at the end of a batch folder's name
LOGS = "logs"
PARTIAL = ".partial"  # beside the logs: batches of launches
AWAY, MADE = "written", "made.json"  # in it: batches with written tables, and the list of tables
GOING = "."  # first character of a batch in removal


def key(*parts: Any) -> str:
    """Return the digest of everything that decides the meaning of a batch's figures (plain data)."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=KEY_DIGITS // 2).hexdigest()


def forget(partial_dir: Path, batch_name: str, outputs: Iterable[Path]) -> None:
    """Put away the batches of a rule: its tables are written, so the next run of the rule wants new samples.

    `settle` deletes them once Snakemake has recorded the job. If Snakemake is killed before, it runs the rule
    again.
    """
    made = json.dumps([file.as_posix() for file in outputs]).encode()
    for folder in Path(partial_dir).glob(f"{batch_name}-{'[0-9a-f]' * KEY_DIGITS}"):
        away = Path(partial_dir) / AWAY / folder.name
        shutil.rmtree(away, ignore_errors=True)
        away.parent.mkdir(exist_ok=True)
        write_bytes(folder / MADE, made)
        folder.replace(away)


def settle(partial_dir: Path) -> None:
    """Delete batches that were put away if their tables exist and are recorded; bring back the others.

    It may be killed anywhere: a batch is renamed before its removal, so no remainder passes for a whole batch.
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
    """Tell whether all tables of a batch exist and their job is recorded; False if unknown.

    A job that fails after writing its tables loses them: Snakemake removes incomplete output.
    """
    try:
        tables = [Path(one) for one in json.loads(made.read_text())]
    except (FileNotFoundError, ValueError):
        return False
    return all(one.exists() and not records.is_incomplete(one) for one in tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The folders for the output of ranks in failed launches of a rule: <logs>/<name>.failure-<k>/."""

    logs: Path
    name: str

    @classmethod
    def beside(cls, partial_dir: Path, name: str) -> "Evidence":
        """Use the log folder of the same results."""
        return cls(logs=Path(partial_dir).parent / LOGS, name=name)

    def clear(self) -> None:
        """Delete the evidence of earlier runs of the rule."""
        for folder in self.logs.glob(f"{self.name}.failure-*"):
            shutil.rmtree(folder)

    def keep(self, work: Path, ranks: Sequence[int] = (), log: str = LOG_FILE) -> Path:
        """Copy a launch's logs and tracebacks; return the file to read first: of `ranks`, else `log`."""
        folders = (self.logs / f"{self.name}.failure-{k}" for k in itertools.count())
        folder = next(one for one in folders if not one.exists())
        folder.mkdir(parents=True)
        for pattern in (f"{Path(LOG_FILE).stem}*", "rank-*.error"):  # one log for each node
            for file in sorted(work.glob(pattern)):
                shutil.copy(file, folder)
        first = (folder / name for name in (*(f"rank-{rank}.error" for rank in ranks), log))
        return next((file for file in first if file.exists()), folder / LOG_FILE)


@contextmanager
def at_work(folder: Path, evidence: Evidence, *, found_again: bool = False) -> Iterator[Path]:
    """Make an empty folder for one launch, without a dead run's remains, and delete it when the launch ends.

    Args:
        found_again: Measurements are read from the folder later: keep it if the machine refuses files.

    Raises:
        LaunchError: The launch failed; the error names the file with its evidence.
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
        raise replace(error, evidence=evidence.keep(folder, error.ranks, error.log)) from None
    except OSError as error:
        stays = found_again and bool(disk.refused(error))
        raise
    finally:
        if not stays:
            shutil.rmtree(folder)


@contextmanager
def once(results: Path, prefix: str) -> Iterator[Path]:
    """Make a folder in a tree, visible to all nodes, for launches whose results nobody keeps; remove it after them.

    A tree that was made for it goes, too.
    """
    partial = results / PARTIAL
    partial.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=partial) as folder:
        yield Path(folder)
    with suppress(OSError):  # not empty: batches of another process
        os.removedirs(partial)
