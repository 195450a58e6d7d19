"""A folder of ways that are open, of all_reduces of float32."""

from collections.abc import Sequence
from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.configuration.deployment import load
from overlayccl_core.process_group.descent import TunedArm
from overlayccl_core.process_group.parts import MODULE, WAYS, Key
from overlayccl_core.tuning.keys import key_of
from overlayccl_core.tuning.open_ways import arms_of, module_of, rows_of
from overlayccl_core.tuning.space import space_of


def write(folder: Path, ranks: int, elements: Sequence[int], hosts: int = 1) -> dict[Key, list[TunedArm]]:
    """Write it; return call -> its ways."""
    folder.mkdir(exist_ok=True)
    entries = [{"calls": [{"kind": "all_reduce_sum", "elements": count}]} for count in elements]
    cases = [catalog.case("captured", entry, ranks=ranks, ranks_per_node=ranks // hosts) for entry in entries]
    spaces = {case: space_of(catalog.build(case), None, None) for case in cases}
    (folder / MODULE).write_text(module_of(spaces, load("config/deployments/local.yaml")))
    (folder / WAYS).write_text(rows_of(spaces))
    return {key_of(case): arms_of(space) for case, space in spaces.items()}
