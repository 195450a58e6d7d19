"""Draw the report of a run from the tables in its folder."""

from pathlib import Path

from overlayccl_core.report.page import page
from overlayccl_core.report.tree import trees_of
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """report.html."""
    trees = trees_of([Path(command.option("tree"))])
    command.write_text(".html", page(trees))


if __name__ == "__main__":
    run("report", main, "tree")
