"""`overlayccl ask`: print what a search would ask a language model first, and what that may cost; then ask.

The very first question of a search that asks a language model, whole, with the most that it may cost by the dated
table of prices. With --dry-run nothing is sent. Needs a fitted deployment, and starts no ranks. An answer is kept
where the search looks for it, so a run does not ask again.
"""

import argparse
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.archiving.unpacked import refuse_unnamed
from overlayccl_core.asking import money
from overlayccl_core.asking.allowance import Allowance
from overlayccl_core.asking.conversation import NoAnswer, Request
from overlayccl_core.asking.record import FOLDER
from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import print_line, print_text
from overlayccl_core.cli.strategy import configured, place_text
from overlayccl_core.configuration import prices
from overlayccl_core.configuration.fields import hint
from overlayccl_core.configuration.searches import FOLDER as SEARCHES
from overlayccl_core.configuration.searches import load
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.program.problem import Problem
from overlayccl_core.search import proposer
from overlayccl_core.search.desk import Desk
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.search.style import style
from overlayccl_core.stages.known_ways import Row, known_way_rows
from overlayccl_core.stages.search import leads, seeker_of

DEFAULT = "claude"


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument("--problem", required=True, help="that is to be solved")
    parser.add_argument(
        "--search", default=DEFAULT, metavar="NAME", help="a file in config/searches (default: %(default)s)"
    )
    parser.add_argument("--command", default="", help="who answers, where the search runs a program")
    parser.add_argument("--dry-run", action="store_true", help="send nothing")


def run(arguments: argparse.Namespace) -> int:
    """Return 0, or 1 without an answer. ValueError for a search without a language model, and before a fit."""
    where = context(arguments, command=arguments.command)
    search: Any = where.settings.asking.of(load(arguments.search, where.root / SEARCHES))
    plugin = proposer.asks(search.proposer)
    if plugin is None:
        raise ValueError(
            f"search {search.name} asks nobody ({search.proposer}): --search names one that does"
        )
    desk, problem, ways = _desk(where, arguments.problem, search, plugin)
    seeker = seeker_of(problem, ways, search, desk.facts, lambda: 0.0)
    if seeker is None:
        raise ValueError(f"{place_text(problem)}: no known strategy is right here, so nothing is searched")
    talk, purpose, message = style(search.style).opening(desk, seeker.begin())
    request = talk.request(purpose, message)
    print_text(f"What leaves this machine, first of {search.name} for {place_text(problem)}:\n")
    print_line(request.system)
    print_line(message.text)
    print_text(_cost(where, request, style(search.style).most_calls(search) * len(desk.leads)))
    if arguments.dry_run:
        print_text("Nothing was sent.")
        return 0
    refuse_unnamed(search, where.root, {"proposer": arguments.search, "command": arguments.command})
    plugin.check(search)
    try:
        answer = talk.send(purpose, message)
    except NoAnswer as error:
        print_text(f"No answer: {error}")
        return 1
    print_line(answer.text)
    call = desk.ledger.calls[-1]
    spent, who = call.record.usd, call.record.model or "a program"
    cost = "its price is not known here" if spent is None else f"{spent:.4f} USD"
    print_text(f"{'Known already' if call.recorded else 'Answered'} by {who}: {cost}.")
    return 0


def _desk(
    where: Context, problem: str, search: Any, plugin: proposer.LanguageModelPlugIn
) -> tuple[Desk, Problem, list[Row]]:
    """Return the search's desk, the first Problem it asks about, and the known ways there.

    ValueError: no such Problem, nothing fitted.
    """
    catalog.plug_in(problem)
    facts = _facts(where)
    can, budget = facts.capabilities, facts.memory_budget_bytes
    problems = {p.place: p for case in configured(where, problem) for p in catalog.directions(case)}
    ways = {place: list(known_way_rows(p, can, budget)) for place, p in problems.items()}
    asked = leads(ways, problems.values())
    if not asked:
        raise ValueError(
            f"{problem} exchanges nothing at its Cases: {hint(problem, where.settings.problems)}"
        )
    first = next(place for place in problems if place in asked)
    folder = where.results / "problems" / problem / "search" / search.name / FOLDER
    allowance = Allowance(
        answers=folder, tree=where.results, max_usd=where.settings.asking.max_usd, root=where.root
    )
    ledger = allowance.ledger(plugin.language_model(search))
    return search.desk(ledger, facts, asked), problems[first], ways[first]


def _facts(where: Context) -> DeploymentFacts:
    return DeploymentFacts(
        theta=theta_of(*where.fitted()),
        capabilities=where.capabilities(),
        memory_budget_bytes=where.deployment.memory_budget_bytes,
    )


def _cost(where: Context, request: Request, calls: int) -> str:
    """Tell the cost of the request, and of a whole search of the Problem: its other questions are about as long."""
    table = prices.load(where.root)
    most, price = money.most_usd(request, table), table.of_model(request.model, money.most_tokens(request))
    said = f"At most {money.most_tokens(request):,} tokens, and {request.max_tokens:,} of an answer"
    if most is None or price is None:
        named = (
            f"{prices.FILE} has no price of {request.model}"
            if request.model
            else "whoever answers has its own price"
        )
        return f"{said}; {named}."
    return (
        f"{said}: at most {most:.4f} USD (prices of {price.date}, {price.source}). A token is counted for every "
        f"byte; of English it takes three or four. The search makes at most {calls} such calls for this Problem, "
        f"all repairs among them: {calls * most:.2f} USD so counted."
    )
