"""Scripts in which something goes wrong: as with the library alone, or one clear error on all ranks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overlayccl_core.process_group.ways import ProvenWays
from tests.process_group.proven_ways import write_ways

SCRIPT = Path(__file__).with_name("failures.py")
CALLS = [("all_reduce_sum", 8), ("all_reduce_sum", 4)]
BUNDLES = [[("all_reduce_sum", elements) for elements in sizes] for sizes in ((5, 6, 7), (3, 3))]
TWOS = [2.0] * 8


class Ended(NamedTuple):
    """A course in one mode: exit codes, and what each rank wrote (nothing if it was killed)."""

    codes: list[int]
    ranks: list[dict[str, Any]]

    def said(self) -> list[Any]:
        return [rank.get("said") for rank in self.ranks]

    def errors(self) -> list[str]:
        return [rank.get("error", "") for rank in self.ranks]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Ended]:
    """(course, mode) -> how it ended."""
    folder = tmp_path_factory.mktemp("failures")
    (folder / "timed").mkdir()
    (folder / "odd").mkdir()
    write_ways(folder / "ways", CALLS, BUNDLES)
    write_ways(folder / "other", CALLS)
    write_ways(folder / "larger", CALLS, ranks=4)
    module = write_ways(folder / "nccl", CALLS) / "captured.py"
    module.write_text(module.read_text().replace("'library': 'gloo'", "'library': 'nccl'"))
    command = [sys.executable, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr[-2000:]
    found = {}
    for line in done.stdout.splitlines():
        course, mode, codes = json.loads(line)
        files = [folder / f"{course}-{mode}-{rank}.json" for rank in range(2)]
        ranks = [json.loads(file.read_text()) if file.exists() else {} for file in files]
        found[course, mode] = Ended(codes, ranks)
    found["recorded", ""] = Ended([], [json.loads((folder / f"rank-{r}.json").read_text()) for r in range(2)])
    found["odd", ""] = Ended([], [json.loads((folder / f"odd/rank-{r}.json").read_text()) for r in range(2)])
    found["timed", ""] = Ended([], [json.loads((folder / "timed/rank-0.json").read_text())])
    return found


@pytest.mark.ranks
@pytest.mark.parametrize(
    "course",
    [
        *("killed", "other_shape_on_one", "error_between_issue_and_wait"),
        *("destroyed_under_way", "wait_with_a_timeout"),
    ],
)
def test_it_ends_as_with_the_library_alone(ended: dict[tuple[str, str], Ended], course: str) -> None:
    plain, tuned = ended[course, "plain"], ended[course, "tuned"]
    assert (tuned.codes, tuned.said()) == (plain.codes, plain.said())
    words = [[error.split(":")[0] for error in one.errors()] for one in (plain, tuned)]
    assert words[0] == words[1]


@pytest.mark.ranks
def test_a_call_with_another_shape_on_all_ranks_is_made(ended: dict[tuple[str, str], Ended]) -> None:
    expected = [[2.0] * (9 if step == 57 else 8) for step in range(60)]
    assert ended["other_shape_on_all", "tuned"].said() == [expected] * 2


@pytest.mark.ranks
def test_torchs_own_check_of_shapes_works_through_us(ended: dict[tuple[str, str], Ended]) -> None:
    found = ended["other_shape_on_one_in_detail", "tuned"]
    assert found.codes == [1, 1]
    assert all("Detected mismatch between collectives" in error for error in found.errors())


@pytest.mark.ranks
def test_what_waits_for_more_goes_out_when_the_script_fails(ended: dict[tuple[str, str], Ended]) -> None:
    found = ended["error_in_a_bundle", "tuned"]
    assert found.codes == [1, 0] and found.said() == [[], [[[2.0] * 5, [2.0] * 6]]]


@pytest.mark.ranks
@pytest.mark.parametrize("course", ["rank_without_ways", "rank_with_other_ways"])
def test_calls_of_ranks_that_differ_in_their_ways_stay_as_they_are(
    ended: dict[tuple[str, str], Ended], course: str
) -> None:
    found = ended[course, "tuned"]
    assert found.codes == [0, 0] and found.said() == [[TWOS]] * 2
    assert not any(rank["made"] for rank in found.ranks)
    assert "ranks [1] of a group of 2 have other ways" in found.ranks[0]["warned"][0]


@pytest.mark.ranks
def test_ways_of_another_number_of_ranks_are_said_to_be_of_no_use(
    ended: dict[tuple[str, str], Ended],
) -> None:
    found = ended["ways_of_more_ranks", "tuned"]
    assert found.said() == [[TWOS]] * 2
    assert "for more ranks than the 2 here" in found.ranks[0]["warned"][0]


@pytest.mark.ranks
def test_ways_of_another_library_are_not_used(ended: dict[tuple[str, str], Ended]) -> None:
    found = ended["ways_of_another_library", "tuned"]
    assert found.said() == [[TWOS]] * 2 and not any(rank["made"] for rank in found.ranks)
    assert "measured on nccl, and a group's library is gloo" in found.ranks[0]["warned"][0]


@pytest.mark.ranks
def test_ways_of_a_group_in_another_tier_are_not_used(ended: dict[tuple[str, str], Ended]) -> None:
    found = ended["group_over_two_hosts", "tuned"]
    assert found.said() == [[[TWOS, TWOS]]] * 2 and not any(rank["made"] for rank in found.ranks)
    [said], others = (rank["warned"] for rank in found.ranks)
    assert "spread over 2 hosts, the ways of its all_reduce were measured on 1" in said and not others


@pytest.mark.ranks
def test_an_asynchronous_call_of_several_goes_on_while_the_script_does(
    ended: dict[tuple[str, str], Ended],
) -> None:
    found = ended["issue_returns_before_the_others_call", "tuned"]
    after = [TWOS, [2.0] * 4, True]
    assert found.codes == [0, 0] and found.said() == [[[False, False], after], [after]]
    assert all(sum(rank["made"].values()) == 2 for rank in found.ranks)


@pytest.mark.ranks
def test_sends_wait_for_no_call_and_end_no_bundle(ended: dict[tuple[str, str], Ended]) -> None:
    found = ended["sends_beside_calls", "tuned"]
    assert found.codes == [0, 0] and found.said() == [[[TWOS, [2.0] * 3, [2.0] * 3]]] * 2


@pytest.mark.ranks
def test_steps_without_a_process_group_are_timed_and_recorded(ended: dict[tuple[str, str], Ended]) -> None:
    assert ended["no_process_group", "timed"].codes == [0, 0]
    assert ended["destroyed_before_the_last_step", "recorded"].codes == [0, 0]
    assert len(ended["timed", ""].ranks[0]["ends"]) == 3
    for rank, record in enumerate(ended["recorded", ""].ranks):
        assert (record["rank"], record["ranks"], record["library"]) == (rank, 2, "gloo")
        assert [call["step"] for call in record["calls"]] == [0, 1]


@pytest.mark.ranks
def test_a_step_unlike_the_others_is_not_followed(ended: dict[tuple[str, str], Ended]) -> None:
    assert ended["odd_step", "recorded"].codes == [0, 0]
    for rank, record in enumerate(ended["odd", ""].ranks):
        assert [call["step"] for call in record["calls"]] == [0, 0, 1, 1, 2, 2, 4, 4]
        assert [call.get("depends_on") for call in record["calls"][-2:]] == [[], [[6], []][rank]]
        assert [call["kind"] for call in record["calls"][:2]] == [["recv", "send"][rank], "all_reduce"]
        assert record["calls"][0].get("peer") == [None, 0][rank]  # it receives from anybody
        assert all(call["uniform"] == (call["kind"] == "all_reduce") for call in record["calls"])


@pytest.mark.parametrize("text", ["", "[]]", '[{"key": 3, "case": "x"}]', '[{"key": [1, 2], "case": "x"}]'])
def test_a_folder_without_ways_is_refused(tmp_path: Path, text: str) -> None:
    if text:
        (tmp_path / "captured.py").write_text("")
        (tmp_path / "ways.json").write_text(text)
    with pytest.raises(ValueError, match=r"is no folder of proven ways, it needs captured.py and ways.json"):
        ProvenWays(tmp_path)
