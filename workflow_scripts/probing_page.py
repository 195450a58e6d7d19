"""Draw the page of probes that models chose beside the sweep."""

from overlayccl_core.report.probing import page
from overlayccl_core.tables.probing import PROBING
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """probing.html."""
    command.write_text(".html", page(command.read(PROBING), command.option("name")))


if __name__ == "__main__":
    run("probing_page", main, "name")
