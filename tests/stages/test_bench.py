"""The bench table on real ranks: what is timed, and how often."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.backends.plan import LaunchPlan
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.backends.torchdist.backend import emit
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.settings import read
from overlayccl_core.evidence import values
from overlayccl_core.launching.failures import Failure, LaunchError
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.stages import bench
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.tables import table
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.shortlist import SHORTLIST
from overlayccl_core.timing import batch as timing
from tests.rows import row
from tests.timing.batches import between, deployment, on_rank, silent

pytestmark = pytest.mark.usefixtures("unrepeated")
QUICK = read()
QUICK = QUICK.changed(bench=QUICK.bench.changed(seconds=2.0, minimum_rounds=2, maximum_rounds=2))


def shortlist(path: Path) -> pl.DataFrame:
    """Forward and backward known ways of a small uniform_a2a on 2 ranks, every Program once."""
    case = catalog.case("uniform_a2a", {"chunk": 4, "width": 8}, ranks=2, ranks_per_node=2)
    rows = {}
    for problem in catalog.directions(case):
        for way in known_way_rows(problem, None, None):
            if way["equivalence"] == "pass":
                listed = {"candidate": way["strategy"], "why": ["known"], "origin": "known", "family": None}
                same = {name: value for name, value in way.items() if name in SHORTLIST.schema}
                rows.setdefault((way["direction"], way["program"]), row(SHORTLIST, **same | listed))
    return table.write(SHORTLIST, list(rows.values()), path / "shortlist.parquet")


@pytest.mark.ranks
def test_both_directions_are_timed_in_one_launch(tmp_path: Path) -> None:
    said: list[str] = []
    listed = shortlist(tmp_path)
    rows = bench.run(deployment(2), QUICK, listed, tmp_path, progress=said.append)
    frame = table.write(BENCH, rows, tmp_path / "bench.parquet")
    key = ("case", "direction", "candidate", "program")
    assert set(frame.select(key).iter_rows()) == set(listed.select(key).iter_rows())
    assert set(frame["direction"]) == {"forward", "backward"}
    assert len(frame.select("launch", "foreign_cpu_share").unique()) == 1
    assert frame["samples_us"].list.len().min() >= 2
    assert set(frame["status"]) == {"timed"}


WRONG = "answer = yield (event if type(event) is Read else type(event)(*event.port, event.value + 1))"
PLANTED = {
    "crashed": "import os; os._exit(3)",
    "hung": "import time; time.sleep(1000)",
    "raised": "raise KeyError('no luck')",
}


def planted(source: str, how: str) -> str:
    """A module that fails on rank 1, or gives wrong values everywhere."""
    return between(source, WRONG) if how == "wrong" else on_rank(1, source, PLANTED[how])


def spoil(monkeypatch: pytest.MonkeyPatch, how: Mapping[str, str]) -> None:
    """Digest of a Program -> how its module fails."""
    monkeypatch.setattr(
        backend, "emit", lambda program: planted(emit(program), how[program.digest]) if program.digest in how
        else emit(program),
    )  # fmt: skip


@pytest.mark.ranks
@pytest.mark.usefixtures("judged_at_once")
def test_candidates_that_fail_on_the_ranks_are_rows_that_say_so_and_the_others_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "TRIAL_TIMEOUT_S", 6.0)
    listed = shortlist(tmp_path)
    forward = listed.filter((pl.col("direction") == "forward") & ~pl.col("why").list.contains("developer"))
    how = dict(zip(forward["program"], ("crashed", "hung", "raised", "wrong"), strict=False))
    assert len(how) == 4
    spoil(monkeypatch, how)
    partial, said = tmp_path / ".partial", list[str]()
    rows = bench.run(deployment(2), QUICK, listed, partial, progress=said.append)
    frame = table.write(BENCH, rows, tmp_path / "bench.parquet")
    failed = frame.filter(pl.col("status") != "timed")
    assert dict(failed.select("program", "status").iter_rows()) == how
    assert failed["samples_us"].list.len().to_list() == [0] * 4
    assert frame.height == listed.height and frame.filter(pl.col("rounds") > 0).height == listed.height - 4
    message = {row["status"]: row["message"] for row in failed.iter_rows(named=True)}
    assert "rank 1 of 2" in message["crashed"] and "exit code 3" in message["crashed"]
    assert "took no step for 6 s" in message["hung"]
    assert "wrong values: output" in message["wrong"]
    trace = Path(message["raised"].partition("; see ")[2])
    assert trace.parent.parent == tmp_path / "logs" and "in forward" in trace.read_text()
    assert not list(partial.rglob("trial"))


@pytest.mark.ranks
@pytest.mark.usefixtures("judged_at_once")
def test_a_candidate_that_crashes_while_it_is_timed_is_left_out_of_a_new_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = shortlist(tmp_path)
    [program] = listed.filter(candidate="permute_ring", direction="forward")["program"].to_list()
    later = "global calls; calls = globals().get('calls', 0) + 1; calls == 3 and __import__('os')._exit(3)"
    monkeypatch.setitem(PLANTED, "crashed", later)
    spoil(monkeypatch, {program: "crashed"})
    rows = bench.run(deployment(2), QUICK, listed, tmp_path / ".partial", progress=silent)
    status = {row["candidate"]: row["status"] for row in rows if row["program"] == program}
    assert status == {"permute_ring": "crashed"}
    timed = [row for row in rows if row["status"] == "timed"]
    assert len(timed) == listed.height - 1
    assert len({row["launch"] for row in timed}) == 1


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Two ranks on paper."""
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(Path(__file__).parents[1] / "plugins"))
    return deployment(2).changed(backend="paper", library="numpy")


class Fails:
    """Stands for ranks of the developer's own way, or of another, that fail so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, culprit: str, *, times: int = 99) -> None:
        self.culprit = culprit
        self.times = times
        self.paper = loader.load("backends", "paper")
        self.real = self.paper.time_launch
        self.launches: list[list[str]] = []
        monkeypatch.setattr(self.paper, "time_launch", self.time_launch)

    def time_launch(self, where: Deployment, folder: Path, plan: LaunchPlan, watch: Any) -> float:
        keys = [job.key for job in plan.jobs]
        self.launches.append(keys)
        for key in keys:
            if self.culprit in key and self.times:
                self.times -= 1
                (folder / "rank-1.error").write_text("Traceback: no luck")
                raise LaunchError("rank 1 of 2 died", kind=Failure.CRASHED, ranks=(1,), job=key)
        return self.real(where, folder, plan, watch)


def developed(listed: pl.DataFrame) -> pl.DataFrame:
    """The same with permute_ring as the developer's own way."""
    return listed.with_columns(
        why=pl.when(pl.col("candidate") == "permute_ring").then(pl.lit(["developer"])).otherwise("why")
    )


def test_without_ranks_a_crash_costs_one_candidate_and_names_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    fails = Fails(monkeypatch, "forward permute_ring")
    listed = shortlist(tmp_path)
    rows = bench.run(paper, QUICK, listed, tmp_path / ".partial", progress=silent)
    [row] = [row for row in rows if row["status"] != "timed"]
    evidence = tmp_path / "logs" / "bench-uniform_a2a.failure-1" / "rank-1.error"
    assert row["message"] == f"rank 1 of 2 died; see {evidence}" and evidence.exists()
    assert [len(keys) for keys in fails.launches] == [listed.height, 1, listed.height - 1]


@pytest.mark.parametrize("needed", [False, True])
def test_without_ranks_a_crash_that_does_not_come_again_costs_nobody_anything(
    needed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    fails = Fails(monkeypatch, "forward permute_ring", times=1)
    listed, said = shortlist(tmp_path), list[str]()
    if needed:
        listed = developed(listed)
    rows = bench.run(paper, QUICK, listed, tmp_path / ".partial", progress=said.append)
    assert {row["status"] for row in rows} == {"timed"} and len(rows) == listed.height
    assert [len(keys) for keys in fails.launches] == [listed.height, 1, listed.height]
    assert {row["launch"] for row in rows} == {0}
    assert any("permute_ring crashed, " in line for line in said)
    assert any("permute_ring runs when" in line for line in said)


def test_a_first_failure_outlives_a_run_that_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    fails = Fails(monkeypatch, "forward permute_ring")
    listed, partial = shortlist(tmp_path), tmp_path / ".partial"

    def cut_off(line: str) -> None:
        if "trying it once more" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(paper, QUICK, listed, partial, progress=cut_off)
    rows = bench.run(paper, QUICK, listed, partial, progress=silent)
    assert [len(keys) for keys in fails.launches] == [listed.height, 1, listed.height - 1]
    assert sum(row["status"] == "crashed" for row in rows) == 1


def test_values_that_were_too_large_to_be_looked_at_leave_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    listed, partial = shortlist(tmp_path), tmp_path / ".partial"

    def too_large(*_: Any, **__: Any) -> str:
        raise TooLarge("a value of 600 MiB on all ranks (limit 512 MiB)")

    with monkeypatch.context() as patch:
        patch.setattr(values, "wrong_values", too_large)
        first = bench.run(paper, QUICK, listed, partial, progress=silent)
    told = "its values on the ranks were not looked at: a value of 600 MiB on all ranks (limit 512 MiB)"
    assert {(row["status"], row["message"]) for row in first} == {("timed", told)}
    assert bench.run(paper, QUICK, listed, partial, progress=silent) == first


def test_where_the_developer_s_own_way_fails_there_is_nothing_to_compare_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    listed = developed(shortlist(tmp_path))
    Fails(monkeypatch, "forward permute_ring")
    with pytest.raises(LaunchError, match=r"is kept: .*rank-1.error"):
        bench.run(paper, QUICK, listed, tmp_path / ".partial", progress=silent)


def test_what_failed_is_not_tried_again_by_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paper: Deployment
) -> None:
    fails = Fails(monkeypatch, "forward permute_ring")
    listed, partial = shortlist(tmp_path), tmp_path / ".partial"
    first = bench.run(paper, QUICK, listed, partial, progress=silent)
    (partial / next(partial.iterdir()).name / "trial").mkdir()  # of a run that was killed
    again = bench.run(paper, QUICK, listed, partial, progress=silent)
    assert first == again and len(fails.launches) == 3


def test_every_candidate_is_a_job_of_its_own_name(tmp_path: Path) -> None:
    listed = shortlist(tmp_path)
    jobs = bench.jobs_of(listed.iter_rows(named=True), emit)
    assert len({job.key for job in jobs.values()}) == listed.height
    assert jobs[tuple(listed.select(bench.KEY).row(0))].program.digest == listed["program"][0]


def test_who_races_whom(tmp_path: Path) -> None:
    """Known ways also among themselves, for the best known way; what loses bits among its own."""
    listed = shortlist(tmp_path).filter(pl.col("direction") == "forward").head(3).to_dicts()
    listed[1] |= {"candidate": "found-0123abcd", "why": ["random"], "origin": "rule"}
    listed[2] |= {"numerics": "lossy"}
    place = f"{listed[0]['case']} forward"
    races = [job.races for job in bench.jobs_of(listed, emit).values()]
    assert races == [(place, f"{place} known ways"), (place,), (f"{place} lossy",)]
