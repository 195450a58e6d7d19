"""Draw the report of a run from the tables in its folder."""

from pathlib import Path

from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """report.html."""
    tree = Tree(path=Path(command.option("tree")), files=frozenset(command.inputs))
    command.write_text(".html", page((tree,)))


if __name__ == "__main__":
    run("report", main, "tree")
