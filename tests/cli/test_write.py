"""`overlayccl write`: a way as MSCCL XML, what it moves, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.cli.repository import Call, too_wide
from tests.schedules.written_ways import SOURCE

CALL = json.dumps({"calls": [{"kind": "all_reduce_sum", "elements": 4096}]})
CASE = ("--problem", "captured", "--case-json", CALL)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A file of strategies."""
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    return str(file)


def test_a_ring_is_written_and_what_it_moves_is_said(call: Call, mine: str, tmp_path: Path) -> None:
    done = call("write", f"{mine}::ring", *CASE, "-o", str(tmp_path / "ring.xml"), "--protocol", "LL")
    assert done.code == 0 and not too_wide(done.out.replace(str(tmp_path), ""))
    for part in (
        "proven, reordered",
        "allreduce of 4 ranks, in chunks of 4KiB",
        "in place and out of place",
        "24 chunks, 96KiB",
        "4; the busiest carries 6 chunks, 24KiB",
        "4 on 1 channel",
        "4 r, 8 rcs, 4 rrcs, 8 rrs, 4 s",
    ):
        assert part in done.words, done.words
    text = (tmp_path / "ring.xml").read_text()
    assert text.startswith('<algo name="ring" proto="LL" nchannels="1" nchunksperloop="4" ngpus="4"')
    assert 'minBytes="16384" maxBytes="16384"' in text


def test_ways_of_other_calls_are_refused_with_those_of_permutes(call: Call, tmp_path: Path) -> None:
    done = call("write", "coalesced", *CASE, "-o", str(tmp_path / "no.xml"))
    message = done.message(1)
    assert "calls all_reduce" in message and "permute_ring_twice" in message
    assert "permute_ring_scattered" not in message  # its shares are gathered by the library's own call
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_is_not_written(call: Call, mine: str, tmp_path: Path) -> None:
    done = call("write", f"{mine}::scattering_ring", *CASE, "-o", str(tmp_path / "no.xml"))
    assert done.code == 1 and not (tmp_path / "no.xml").exists()


def test_a_collective_and_a_payload_name_a_call(call: Call, tmp_path: Path) -> None:
    out = str(tmp_path / "ring.xml")
    done = call("write", "permute_ring_twice", "--collective", "all_reduce", "--payload", "10000", "-o", out)
    assert done.code == 0 and "captured/n4-all_reduce_sum-2500-f32: proven" in done.words
    again = call("write", out, "-o", str(tmp_path / "again.xml"), "--payload", "10000")
    assert again.code == 0 and "allreduce of 4 ranks" in again.words


def test_a_schedule_becomes_a_way(call: Call, tmp_path: Path) -> None:
    xml, way = tmp_path / "gather.xml", tmp_path / "plugins/strategies/ways/gathers.py"
    assert call("write", "permute_ring", "--collective", "all_gather", "-o", str(xml)).code == 0
    done = call("write", str(xml), "-o", str(way))
    assert done.code == 0 and "a way for plugins/strategies/ways/gathers.py" in done.words
    assert "def schedule_permute_ring(x, p):" in way.read_text() and "gather.xml" in way.read_text()
    assert "is there already" in call("write", str(xml), "-o", str(way)).message(2)
    assert "no schedule" in call("write", "permute_ring", "--collective", "all_gather", "-o", "x.py").message(
        2
    )
    assert "as .xml" in call("write", str(xml), "-o", "x.json").message(2)
