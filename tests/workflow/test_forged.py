"""What was forged in a real run's archive is found, though all hashes were mended."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pytest

from overlayccl_core.archiving.findings import Check, CheckOutcome
from overlayccl_core.archiving.verify import verify
from overlayccl_core.program.json_form import _rebuild, dumps
from tests.archiving.forgeries import (
    attackers_program,
    code_among_logs,
    commented_code,
    eternal,
    invented_answer,
    one_more_code,
    other_command,
    say,
    snakefiles_code,
)
from tests.archiving.forging import forged, looked_at, rewritten, wrong

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(1800)]  # of the run that is archived
TREE = Path("results/local")


def halved(folder: Path) -> None:
    """A raw sample column of the probes."""
    rewritten(
        folder / TREE / "probes.parquet",
        lambda f: f.with_columns(pl.col("samples_us").list.eval(pl.element() / 2)),
    )


def cheaper(folder: Path) -> None:
    """A coefficient."""
    rewritten(folder / TREE / "theta.parquet", lambda f: f.with_columns(pl.col("value") * 0.9))


def faster(folder: Path) -> None:
    """The gain that is told."""
    rewritten(folder / TREE / "summary.parquet", lambda f: f.with_columns(pl.col("speedup") * 2))


def other_module(folder: Path) -> None:
    """What is deployed."""
    file = folder / TREE / "deploy" / "tp_mlp.py"
    file.write_text(file.read_text() + "# and one more line\n")


def other_page(folder: Path) -> None:
    """The page."""
    file = folder / TREE / "report.html"
    file.write_text(file.read_text().replace("OverlayCCL", "0verlayCCL", 1))


def not_what_it_says(folder: Path) -> None:
    """A Program under another's name and digest."""

    def swapped(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("program_json").gather([1, 0, *range(2, frame.height)]))

    rewritten(folder / TREE / "problems/tp_mlp/shortlist.parquet", swapped)


def wrong_program(folder: Path) -> None:
    """A Program that gives the first of its results twice, with digests that fit."""

    def spoiled(frame: pl.DataFrame) -> pl.DataFrame:
        row = frame.row(0, named=True)
        data = json.loads(row["program_json"])
        writes = [event for event in data["events"] if event[0] == "write"]
        writes[-1][2] = writes[0][2]
        program = _rebuild(data)  # with the digests that come of it
        told = {
            "program_json": dumps(program),
            "program": program.digest,
            "value_digest": program.value_digest,
        }
        return pl.concat([pl.DataFrame([row | told], schema=frame.schema), frame[1:]])

    rewritten(folder / TREE / "problems/tp_mlp/shortlist.parquet", spoiled)


def other_settings(folder: Path) -> None:
    """The configuration."""
    file = folder / "config" / "config.yaml"
    file.write_text(file.read_text().replace("bootstraps: 4", "bootstraps: 5"))


def other_code(folder: Path) -> None:
    """The proof, for who runs what lies in the archive."""
    file = folder / "overlayccl_core" / "gates" / "equivalence.py"
    file.write_text(file.read_text() + "\n\nPASSED = True\n")


def without_a_gate(folder: Path) -> None:
    """A file of the release, taken out."""
    (folder / "overlayccl_core" / "gates" / "choice.py").unlink()


def other_machine(folder: Path) -> None:
    """Where it was measured."""
    say(folder, machine="host of 512 H100 #0123abcd")


def other_settings_told(folder: Path) -> None:
    """With which settings the bench says that it was taken: by these the page knows its floors."""
    file = folder / TREE / "problems/tp_mlp/bench.sidecar.json"
    file.write_text(file.read_text().replace("minimum_rounds", "minimum_r0unds"))


def unreadable(folder: Path) -> None:
    """A Case that there is not."""
    rewritten(
        folder / TREE / "problems/tp_mlp/shortlist.parquet",
        lambda f: f.with_columns(case=pl.lit("tp_mlp/n4-m9-l9-9KiB-f32")),
    )


def without_the_worst(folder: Path) -> None:
    """Half of what the cost model is judged by."""
    table = folder / TREE / "probes.parquet"
    held_out = pl.read_parquet(table).filter(role="heldout")["probe"].unique().sort()
    rewritten(table, lambda f: f.filter(~pl.col("probe").is_in(held_out[::2].to_list())))


def without_a_rival(folder: Path) -> None:
    """What needs no search, in the launches that the figures are of."""
    rivals = pl.read_parquet(folder / TREE / "confirmed_steps.parquet").filter(pl.col("arm") != "deployed")
    for name in ("confirmed_steps", "confirmed_stamps"):
        rewritten(folder / TREE / f"{name}.parquet", lambda f: f.filter(pl.col("arm") != rivals["arm"].max()))


def without_one(folder: Path) -> None:
    """A candidate that was timed."""
    rewritten(folder / TREE / "problems/tp_mlp/bench.parquet", lambda f: f[:-1])


def without_a_launch(folder: Path) -> None:
    """The developer's steps in one launch of training."""
    last = pl.col("launch") == pl.col("launch").max()
    rewritten(
        folder / TREE / "train/tiny/steps.parquet",
        lambda f: f.filter(~(last & (pl.col("arm") == "developer"))),
    )


def more_memory(folder: Path) -> None:
    """How much an arm holds, by which it is a rival or not."""
    rewritten(
        folder / TREE / "confirmed_steps.parquet",
        lambda f: f.with_columns(pl.col("peak_memory_bytes") + (pl.col("arm") != "deployed").cast(pl.Int64)),
    )


def the_fastest_steps(folder: Path) -> None:
    """Which of its steps are told."""
    rewritten(
        folder / TREE / "confirmed_steps.parquet",
        lambda f: f.with_columns(pl.col("steps_us").list.sort().list.head(1)),
    )


def one_more_module(folder: Path) -> None:
    """A module that nobody chose."""
    (folder / TREE / "deploy" / "fast.py").write_text("connect = print\n")


def one_more(folder: Path) -> None:
    """A file that nobody made."""
    (folder / TREE / "problems/tp_mlp/extra.parquet").write_bytes(b"PAR1")


TREE_FILE = "results/local/{}".format
FORGED: tuple[dict[Callable[[Path], None], tuple[Check, str]], ...] = (
    {
        halved: (Check.MADE_AGAIN, TREE_FILE("theta.parquet")),
        faster: (Check.MADE_AGAIN, TREE_FILE("summary.parquet")),
        other_module: (Check.MADE_AGAIN, TREE_FILE("deploy/tp_mlp.py")),
        other_page: (Check.MADE_AGAIN, TREE_FILE("report.html")),
        not_what_it_says: (Check.PROOFS, "developer"),
        other_settings: (Check.CONFIGURATION, "fit"),
        one_more: (Check.TABLES, TREE_FILE("problems/tp_mlp/extra.parquet")),
        other_machine: (Check.CONSISTENT, "machine"),
        other_command: (Check.CONFIGURATION, "archive.json: command"),
        eternal: (Check.CONFIGURATION, "price-tp_mlp"),
    },
    {
        cheaper: (Check.MADE_AGAIN, TREE_FILE("theta.parquet")),
        wrong_program: (Check.PROOFS, ""),
        one_more_module: (Check.FILES, TREE_FILE("deploy/fast.py")),
        code_among_logs: (Check.FILES, TREE_FILE("logs/evil.py")),
        other_settings_told: (Check.CONFIGURATION, "bench-tp_mlp"),
        unreadable: (Check.PROOFS, "local"),
    },
    {
        without_the_worst: (Check.COMPLETE, "probe"),
        without_a_rival: (Check.COMPLETE, "confirm"),
        without_one: (Check.COMPLETE, "bench-tp_mlp"),
        without_a_launch: (Check.COMPLETE, "train-tiny"),
        more_memory: (Check.CONSISTENT, "arms"),
        the_fastest_steps: (Check.CONSISTENT, "confirmed_steps.parquet"),
    },
)
# What is named, as it may be honest: somebody is to read it.
NAMED: dict[Callable[[Path], None], tuple[str, ...]] = {
    other_code: ("overlayccl_core/gates/equivalence.py",),
    snakefiles_code: ("workflow_scripts/pipeline.py",),
    commented_code: ("overlayccl_core/gates/verdict.py",),
    one_more_code: ("overlayccl_core/evil.py",),
    without_a_gate: ("overlayccl_core/gates/choice.py",),
    attackers_program: ("config/searches/command.yaml", "config/searches/claude.yaml"),
    invented_answer: (TREE_FILE(f"problems/tp_mlp/search/offline/answers/{'0f' * 32}.json"),),
}


def changed_by(changes: Iterable[Callable[[Path], None]]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for one in changes:
            one(folder)

    return change


@pytest.mark.parametrize("changes", FORGED, ids=["what is told", "what it rests on", "what was measured"])
def test_forgeries_whose_hashes_were_mended_are_found(
    archive: Path, tmp_path: Path, changes: dict[Callable[[Path], None], tuple[Check, str]]
) -> None:
    """What verifying looks at once all are found is not waited for."""
    missed, found = dict(changes), []
    for one in verify(forged(archive, tmp_path, changed_by(changes)), 2, lambda line: None):
        if one.outcome is CheckOutcome.WRONG:
            found.append(one)
            missed = {
                change: (check, subject)
                for change, (check, subject) in missed.items()
                if check is not one.check or subject not in one.subject
            }
        if not missed:
            break
    assert not missed, ([change.__doc__ for change in missed], found)
    assert not any(one.check in (Check.BYTES, Check.MANIFEST) for one in found), found  # it was mended well


def test_code_configuration_and_answers_of_nobody_are_named_and_all_else_is_made_again(
    archive: Path, finished: Path, tmp_path: Path
) -> None:
    """By this release: what the archive holds of code is not run."""
    found = looked_at(forged(archive, tmp_path, changed_by(NAMED)))
    assert not wrong(found)
    named = " ".join(f"{one.subject} {one.message}" for one in found if one.outcome is not CheckOutcome.EXACT)
    for files in NAMED.values():
        for file in files:
            assert file in named, named
    again = [one for one in found if one.check is Check.MADE_AGAIN]
    assert {one.outcome for one in again} <= {CheckOutcome.EXACT, CheckOutcome.WITHIN}
    modules = {f"deploy/{path.name}" for path in (finished / TREE / "deploy").glob("*.py")}  # or torch's own
    wanted = {"theta.parquet", "summary.parquet", "report.html", "deploy/tp_mlp.json"} | modules
    assert wanted <= {one.subject.removeprefix(f"{TREE}/") for one in again}
    measured = {one.subject for one in found if one.check is Check.MEASURED}
    assert measured >= {"selftest", "probe", "bench-tp_mlp", "train-tiny", "confirm"}
