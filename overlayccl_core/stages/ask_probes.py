"""ask_probes: a language model chooses probes; they are timed on the ranks, turn by turn."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.searches import Search
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.asked import call_rows
from overlayccl_core.probes.asked.briefing import ProbeBriefing, columns_of
from overlayccl_core.probes.asked.chooser import Asked, Chooser, TurnOutcome
from overlayccl_core.probes.asked.order import ProbeTarget
from overlayccl_core.probes.probe import Probe
from overlayccl_core.probes.probe_timings import time_probes
from overlayccl_core.probes.sweep import to_time
from overlayccl_core.search import proposer
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.probing import ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.timing.partial import forget

BATCH_NAME = "ask_probes"
Row = dict[str, Any]


def main(job: RuleJob) -> None:
    """Write the tables asked_probes, chosen_probes and probe_calls of one search."""
    settings = Settings.from_part(job.option("settings"))
    answers, tree = Path(job.option("answers")), Path(job.option("tree"))
    tables = run(
        load(job.option("deployment")),
        settings,
        Search.from_json(job.option("search")),
        job.read(CAPABILITIES),
        job.partial,
        allowance=Allowance(answers=answers, tree=tree, max_usd=settings.asking.max_usd),
        progress=job.say,
        code=job.option("code"),
    )
    job.write({table: tables[table.name] for table in (ASKED_PROBES, CHOSEN_PROBES, PROBE_CALLS)})
    forget(job.partial, BATCH_NAME, job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    search: Search,
    capabilities: pl.DataFrame,
    partial_dir: Path,
    *,
    allowance: Allowance,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `asked_probes`, `chosen_probes` and `probe_calls`.

    Args:
        search: Names the proposer and its model.
        allowance: Place of the answers, and their allowed cost.
        code: Digest of the rule's code; launches of other code are not reused.
    """
    plugin = proposer.asks(search.proposer)
    if plugin is None:
        raise ValueError(
            f"search {search.name} asks nobody ({search.proposer}): name one that asks a language model"
        )
    who: Any = search
    can = Capabilities.from_rows(capabilities.iter_rows(named=True))
    sweep = to_time(deployment, settings, can, lambda _: None)
    rounds = settings.probe.rounds_of_fitted
    section = settings.probe.changed(minimum_rounds=rounds, maximum_rounds=rounds)

    def measure(probes: Sequence[Probe]) -> list[Row]:
        return time_probes(
            *(probes, deployment, section, partial_dir), batch_name=BATCH_NAME, code=code, progress=progress
        )

    chooser = Chooser(
        brief=ProbeBriefing(
            place=ProbeTarget(deployment=deployment, mixed_seed=settings.probe.mixed_seed),
            capabilities=can,
            wanted=columns_of(one for one in sweep if one.role.fits_theta),
            rounds=rounds,
        ),
        budget=settings.probing,
        fit=settings.fit,
        ledger=allowance.ledger(plugin.language_model(who)),
        how={
            "model": who.model,
            "temperature": who.temperature,
            "max_tokens": who.max_tokens,
            "sample": who.seed,
        },
        measure=measure,
    )
    chooser.choose()
    progress(f"{search.name}: {len(chooser.timed)} probes were timed; {chooser.ended}")
    of = {"search": search.name}
    return {
        "asked_probes": [of | row for row in _asked_rows(chooser)],
        "chosen_probes": [of | row for row in chooser.timed],
        "probe_calls": [of | row for row in call_rows(chooser.ledger.calls)],
    }


def _asked_rows(chooser: Chooser) -> list[Row]:
    turn = chooser.asked[-1].turn if chooser.asked else 0
    last = Asked(turn=turn, tool="", arguments="", outcome=TurnOutcome.ENDED, message=chooser.ended)
    return [
        {
            "number": number,
            "turn": one.turn,
            "tool": one.tool,
            "arguments": one.arguments,
            "outcome": one.outcome.value,
            "message": one.message,
            "probe": one.probe.name if one.probe else None,
            "program": one.probe.program.digest if one.probe else None,
        }
        for number, one in enumerate((*chooser.asked, last))
    ]
