"""Let a language model choose probes, and time them as it does."""

from pathlib import Path

from overlayccl_core.backends.partial import forget
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.search.allowance import Asking
from overlayccl_core.stages import ask_probes
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probing import ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS
from workflow_scripts.command import Command, run


def main(command: Command) -> None:
    """Tables asked_probes, chosen_probes and probe_calls of one that chooses."""
    settings = Settings.from_part(command.option("settings"))
    partial = Path(command.option("partial"))
    answers, tree = Path(command.option("answers")), Path(command.option("tree"))
    tables = ask_probes.run(
        load(command.option("deployment")),
        settings,
        Search.from_json(command.option("search")),
        command.read(CAPABILITIES),
        partial,
        asking=Asking(answers=answers, tree=tree, max_usd=settings.asking.max_usd),
        progress=command.say,
        code=command.option("code"),
    )
    command.write({table: tables[table.name] for table in (ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS)})
    forget(partial, ask_probes.PARTIAL_RULE, command.outputs)


if __name__ == "__main__":
    run("ask_probes", main, "deployment", "search", "settings", "partial", "answers", "tree", "code")
