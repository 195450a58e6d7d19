"""A module with three ways of one Case, on two real ranks: each runs, and no rank runs another than the rest."""

from pathlib import Path

import pytest

from overlayccl_core.program.numerics import LOSSY_TOLERANCE, REORDERED_TOLERANCE
from tests.emit.deployed_modules import entry, tried, write
from tests.emit.test_deployed_on_ranks import M, play, tp

pytestmark = pytest.mark.ranks
DOUBLED = """
for layer in p.layer_order:
    for m in range(p.microbatches):
        io.write("total", m, layer, scale(all_reduce(io.read("partial", m, layer)), 2, 1))
""".strip()


def test_every_way_gives_the_same_and_ranks_that_name_different_ones_are_told(tmp_path: Path) -> None:
    case = tp("exit", ranks=2)
    third = entry(case, "all_to_all_of_copies").ways["chosen"]
    lossy = entry(case, "bf16_on_the_wire", numerics="lossy", third=third)
    write(tmp_path, "three", [lossy])
    doubled = entry(case, forward=tried(case, DOUBLED), backward="developer").ways["chosen"]
    write(tmp_path, "wrong", [entry(case, "developer", third=doubled)])
    scenarios = {"ways": ("by_way", "three.py", {"case": case.id}), "wrong": ("tested", "wrong.py", {})}
    seen = play(tmp_path, scenarios, ranks=2, worker="ways_worker")
    assert seen["ways"][0]["errors"] == seen["ways"][1]["errors"]
    for of_rank in seen["ways"]:
        assert of_rank["ways"] == ["chosen", "plain", "third"] and of_rank["same"]
        assert of_rank["runs"] == {way: way for way in of_rank["ways"]}
        assert of_rank["programs"] == {
            name: {d: proven.program.digest for d, proven in way.items()} for name, way in lossy.ways.items()
        }
        assert of_rank["calls"]["plain"] == {"all_reduce": M} and of_rank["calls"]["third"] == {
            "all_to_all": 1
        }
        assert of_rank["default"] == "chosen" and of_rank["with PLAIN"] == "plain"
        forward = {
            line["way"]: line["tolerance"] for line in of_rank["lines"] if line["direction"] == "forward"
        }
        assert forward == {"chosen": LOSSY_TOLERANCE, "third": REORDERED_TOLERANCE}  # not held to one another
        errors = of_rank["errors"]
        assert "ranks differ in the way: 'chosen' on rank 0, 'third' on rank 1" in errors["differ"]
        assert "ranks differ in the way: 'third' on rank 0, 'fourth' on rank 1" in errors["one unknown"]
        assert errors["unknown"].startswith(
            f"ValueError: {case.id} has no way 'fourth': name one of chosen, plain,"
        )
        group = f"group 0 of {case.id}"
        assert f"rank 0 runs {group}, rank 1 runs {group} (third): all ranks" in errors["called"]
        assert case.id in errors["no Case"]
    for of_rank in seen["wrong"]:
        assert "forward: total[" in of_rank["error"] and "(third, at most" in of_rank["error"]
