"""Pack a results tree, how each file of it was made and the code that made it."""

import json
from pathlib import Path

from overlayccl_core.archiving import make, said
from overlayccl_core.archiving.packing import SUFFIX
from overlayccl_core.archiving.said import Said
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """results/<tree>.tar.zst."""
    tree = Path(command.option("tree"))
    about = Said(tree=tree.name, **json.loads(command.option("said")), **said.versions())
    command.say(make.make(tree, command.output(SUFFIX), about))


if __name__ == "__main__":
    run("archive", main, "tree", "said")
