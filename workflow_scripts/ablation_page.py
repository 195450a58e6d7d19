"""Draw the page of searches side by side."""

from overlayccl_core.report.ablations import page
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATIONS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """ablations.html."""
    curves, arms = command.read(ABLATION_CURVES), command.read(ABLATIONS)
    command.write_text(".html", page(curves, arms, command.option("name")))


if __name__ == "__main__":
    run("ablation_page", main, "name")
