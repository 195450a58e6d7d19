"""What ranks run in the test of a module with three ways: beside the scenarios of other tests, `by_way`."""

import sys
from pathlib import Path

import torch

from overlayccl_core.backends.torch_ranks.driver import load_module
from overlayccl_core.backends.torchdist.rank import Rank
from tests.emit.deployed_worker import SCENARIOS, Seen, main, said, with_set


def by_way(rank: Rank, path: Path, case: str) -> Seen:
    """Every way of a Case on the same whole numbers; then ranks that do not name, or call, the same way."""
    module = load_module(path, path.stem)
    connected = {way: module.connect(case, way=way) for way in module.ways(case)}
    shape = connected["plain"].entry.inputs["forward"]["partial", 0, 0].shape
    results: dict[str, list[torch.Tensor]] = {}
    for way, one in connected.items():
        group = one.group(0)
        xs = [torch.full(shape, rank.index + i + 1.0, requires_grad=True) for i in range(len(group.inputs))]
        ys = group(xs)
        (torch.stack(ys) * torch.arange(1.0, 1 + len(ys)).view(-1, *[1] * len(shape))).sum().backward()
        results[way] = [*ys, *(x.grad for x in xs)]
    stamps = {way: one.stamp() for way, one in connected.items()}
    odd = rank.index == 1
    checked = {
        way: with_set("CHECK", "1", lambda way=way: module.connect(case, way=way)) for way in connected
    }
    errors = {
        "differ": said(lambda: module.connect(case, way="third" if odd else "chosen")),
        "one unknown": said(lambda: module.connect(case, way="fourth" if odd else "third")),
        "unknown": said(lambda: module.connect(case, way="fourth")),
        "no Case": said(lambda: module.ways("none")),
        "called": said(
            lambda: checked["third" if odd else "chosen"].group(0)([torch.zeros(shape)] * len(xs))
        ),
    }
    return {
        "ways": list(connected),
        "same": all(map(torch.equal, of, results["plain"]) for of in results.values()),
        "runs": {way: stamp["runs"] for way, stamp in stamps.items()},
        "programs": {way: stamp["program"] for way, stamp in stamps.items()},
        "calls": {way: stamp["calls"] for way, stamp in stamps.items()},
        "default": module.connect(case).stamp()["runs"],
        "with PLAIN": with_set("PLAIN", "1", lambda: module.connect(case, way="third")).stamp()["runs"],
        "lines": connected["third"].selftest(),
        "errors": errors,
    }


SCENARIOS["by_way"] = by_way  # `main` of the starter's ranks finds it there

if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
