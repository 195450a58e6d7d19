"""The model of tests/plugins: a layer of experts, found through OVERLAYCCL_PLUGINS."""

from pathlib import Path
from typing import Any

from overlayccl_core.configuration.models import Model

PLUGINS = Path(__file__).parents[1] / "plugins"
STAYS = '''
from overlayccl_core.program.language import Library

def stays(io, p):
    """A wrong backward of an exchange: nobody gets what others sent."""
    io.write("d_send", io.read("d_received"))

LIBRARY = Library(developer="stays", hand_bundled="stays", others=())
'''


def experts(**fields: Any) -> Model:
    """Two experts and two microbatches; `fields` otherwise."""
    given = {"workload": "experts", "experts": 2, "width": 4, "hidden": 8, "batch": 6}
    return Model.from_data(
        {**given, "microbatches": [2], "loss_microbatches": 2, **fields}, name="tiny-experts"
    )
