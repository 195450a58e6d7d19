"""Ways over two hosts, whose leaders have a group of their own: each is made by ranks of both."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from benchmarks import open_ways
from overlayccl_core.process_group import seam
from overlayccl_core.process_group.parts import MODULE, WAYS, Key
from overlayccl_core.process_group.tuned import Tuned

RANKS, HOSTS, ELEMENTS = 4, 2, 8


def made(folder: Path, rank: int) -> None:
    """Make a sum on a rank, and write the result, and how many were made in the way."""
    os.environ |= {"RANK": str(rank), "GROUP_RANK": str(rank * HOSTS // RANKS)}
    passage = Tuned(folder)
    seam.install(lambda: passage, every=True)
    dist.init_process_group("gloo", init_method=f"file://{folder}/met", rank=rank, world_size=RANKS)
    x = torch.full((ELEMENTS,), 2.0**rank)
    dist.all_reduce(x)
    (folder / f"{rank}.json").write_text(json.dumps([x.tolist(), sum(passage.made.values())]))
    dist.destroy_process_group()


@pytest.mark.ranks
def test_each_way_with_leaders_is_made(tmp_path: Path) -> None:
    [(key, arms)] = open_ways.write(tmp_path, RANKS, [ELEMENTS], HOSTS).items()
    assert key == Key("all_reduce", "sum", "float32", ELEMENTS, RANKS, hosts=HOSTS)
    [row] = json.loads((tmp_path / WAYS).read_text())
    ways = [arm.way for arm in arms if arm.parts == 1 and "hierarchical" in arm.way]
    assert "hierarchical" in ways
    context = multiprocessing.get_context("fork")
    for way in ways:
        folder = tmp_path / way
        folder.mkdir()
        (folder / MODULE).write_bytes((tmp_path / MODULE).read_bytes())
        (folder / WAYS).write_text(json.dumps([{"key": row["key"], "case": row["case"], "way": way}]))
        ranks = [context.Process(target=made, args=(folder, rank)) for rank in range(RANKS)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(60)
            one.kill()
        assert [one.exitcode for one in ranks] == [0] * RANKS, way
        for rank in range(RANKS):
            assert json.loads((folder / f"{rank}.json").read_text()) == [[15.0] * ELEMENTS, 1], way
