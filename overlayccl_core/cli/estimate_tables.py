"""Output of `overlayccl estimate`: minutes, nodes and money by rule, sizes by model, and a run's times."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from rich.table import Table

from overlayccl_core.cli.render import NOTHING, plain_table
from overlayccl_core.configuration.models import Work
from overlayccl_core.configuration.prices import InstancePrice
from overlayccl_core.configuration.sizes import MIB, bytes_text
from overlayccl_core.configuration.topology import ClusterTimes
from overlayccl_core.estimates.actual import Compared
from overlayccl_core.estimates.plan import RuleDemand
from overlayccl_core.estimates.sizes import Sized
from overlayccl_core.estimates.span import Span, total
from overlayccl_core.measuring.figures import figures
from overlayccl_core.report.payback import Cost

WIDE_ONLY = frozenset(
    {"nodes", "launches", "Programs", "measuring", "start-up", "gradients", "activation", "TFLOP"}
)
Cells = dict[str, str]  # header -> cell


def _table(
    title: str, rows: Sequence[Cells], *, narrow: bool, left: str = "", last: Cells | None = None
) -> Table:
    """Cells under their headers, numbers to the right. narrow: without `WIDE_ONLY`. left: column of text to fold.
    last: a row below a line."""
    headers = [header for header in rows[0] if not (narrow and header in WIDE_ONLY)]
    sided = (header if header in (headers[0], left) else f">{header}" for header in headers)
    table = plain_table(title, *sided, fold=(left,))
    for row in rows:
        table.add_row(*(row[header] for header in headers))
    if last is not None:
        table.add_section()
        table.add_row(*(last[header] for header in headers))
    return table


def run_table(asked: Sequence[RuleDemand], price: InstancePrice | None, *, narrow: bool) -> Table:
    """A row for each rule with ranks, one for all others, and their sum. Minutes are one job after another."""
    together = RuleDemand(
        rule="together",
        nodes=0,
        jobs=sum(row.jobs for row in asked),
        launches=sum(row.launches for row in asked),
        measuring_s=sum(row.measuring_s for row in asked),
        start_s=sum(row.start_s for row in asked),
        compile_s=total(row.compile_s for row in asked),
    )
    spent = _spent(total(row.node_seconds for row in asked), price)
    last = _asked_row(together, price) | {"nodes": "", "Programs": "", **spent}
    rows = [_asked_row(row, price) for row in asked]
    return _table(
        "What a run asks for, in minutes (a..b: at least a, at most b)", rows, narrow=narrow, last=last
    )


def _asked_row(row: RuleDemand, price: InstancePrice | None) -> Cells:
    return {
        "rule": row.rule,
        "jobs": str(row.jobs),
        "nodes": str(row.nodes) if row.nodes else NOTHING,
        "launches": str(row.launches),
        "Programs": NOTHING if row.programs is None else row.programs.text(lambda n: f"{n:.0f}"),
        "measuring": _minutes(row.measuring_s),
        "start-up": _minutes(row.start_s),
        "compiling": row.compile_s.text(_minutes),
        "minutes": row.seconds.text(_minutes),
        **_spent(row.node_seconds if row.nodes else None, price),
    }


def run_lines(node: str, published: ClusterTimes | None, known: bool) -> Iterator[str]:
    """Yield the meaning of the figures, and their gaps."""
    yield (
        "measuring: what the configuration gives the launches. start-up: a guess from four CPU ranks on two cores. "
        "Programs of bench: from the developer's alone to all known strategies and what the search may add. "
        "Waiting for nodes is not in it, nor launches that are repeated as others disturbed them."
    )
    if published is not None:
        yield (
            f"compiling: published figures ({published.source}), one graph after another, none of them cached; "
            "payloads above the last figure count as 20 to 90 s. The graphs of training steps are not in it: "
            "nothing is published of them."
        )
    else:
        yield f"compiling: nothing is counted, as nothing is published of {node or 'this host'}."
    if known:
        yield "all else: what these jobs took in the last run of this tree."
    else:
        yield "all else: a few seconds for each job, on the machine where Snakemake runs, some beside one another."


def price_lines(node: str, price: InstancePrice | None, today: date) -> Iterator[str]:
    """Yield the source of the price, and its age if it is old."""
    if price is None:
        yield f"No money is told: config/prices.yaml has no price of {node or 'this host'}."
        return
    yield (
        f"USD: {price.usd_per_hour:.2f} an hour for each {price.instance}, on demand in {price.region} on "
        f"{price.date} ({price.source}). Head node, storage and traffic come on top, and idle nodes that are kept."
    )
    if (days := price.old_days(today)) is not None:
        yield f"That price is {days} days old: look it up, and put it into config/prices.yaml with its date."


def memory_lines(peaks: Mapping[str, int], budget: int) -> Iterator[str]:
    """Yield the memory of a run's Cases; `peaks` are of the developer's Program of each, bytes on a rank."""
    if peaks:
        largest = max(peaks, key=lambda name: peaks[name])
        yield (
            f"Of {len(peaks)} Cases the developer's Program of {largest} holds most on a rank: "
            f"{_size(peaks[largest])} of a memory_budget of {bytes_text(budget)}."
        )
    if over := [name for name, peak in peaks.items() if peak > budget]:
        yield (
            f"OVER THE BUDGET: {', '.join(over)}. A run takes another way that developers call it, and stops where "
            "none fits: raise memory_budget in the deployment's file, or leave these Cases out."
        )


def sizes_table(rows: Sequence[Sized], budget: int, *, narrow: bool) -> Table:
    """A row for each model and way to split its batch."""
    largest = f"largest Case: developer's peak (budget {bytes_text(budget)})"
    cells: list[Cells] = []
    before = ""
    for row in rows:
        over = "" if row.peak_bytes <= budget else ", OVER THE BUDGET"
        cells.append(
            {
                "model": "" if row.model == before else row.model,
                "M": str(row.microbatches),
                "parameters": "" if row.model == before else f"{row.parameters:,}",
                **_held(row.work),
                largest: f"{row.largest}: {_size(row.peak_bytes)}{over}",
            }
        )
        before = row.model
    title = "What the models hold on the rank that holds most, and compute in a step"
    return _table(title, cells, narrow=narrow, left=largest)


def _held(work: Work | None) -> Cells:
    return {
        "of a rank": NOTHING if work is None else _size(work.parameter_bytes),
        "gradients": NOTHING if work is None else _size(work.parameter_bytes),
        "AdamW": NOTHING if work is None else _size(work.optimizer_bytes),
        "activation": NOTHING if work is None else _size(work.activation_bytes),
        "TFLOP": NOTHING if work is None else figures(work.flops / 1e12),
    }


SIZES_LINE = (
    "M: microbatches. of a rank: parameters; AdamW: its two moments in float32, and a float32 copy of parameters "
    "of 16 bits; activation: what one block hands to the next, of one microbatch; TFLOP: matrix products of a step "
    "on all ranks, forward and backward. The peak is of the values of the developer's Program alone."
)


def compared_table(name: str, rows: Sequence[Compared], cost: Cost, price: InstancePrice | None) -> Table:
    """A row for each job on ranks, one for all others, and the sum on ranks."""
    expected = [row.expected_s for row in rows]
    whole = None if None in expected else sum(s for s in expected if s is not None)
    measured = sum(row.actual_s for row in rows)
    cells = [_compared_row(row.job, row.expected_s, row.actual_s, cost.nodes, price) for row in rows]
    light = cost.seconds - measured
    guessed = sum(job.declared.budget_of(None, 0).seconds for job in cost.jobs if not job.declared.measures)
    cells.append(_compared_row("all else", guessed, light, None, price))
    last = _compared_row("on ranks", whole, measured, cost.nodes, price)
    return _table(
        f"{name}: what it took beside what was expected, in minutes", cells, narrow=False, last=last
    )


COMPARED_LINE = (
    "expected: what the run's own settings gave each job, and a guess of start-up; compiling is not in it. all "
    "else: jobs without ranks, one after another, though some ran side by side."
)


def _compared_row(
    job: str, expected_s: float | None, actual_s: float, nodes: int | None, price: InstancePrice | None
) -> Cells:
    """One row; nodes: None for a job without nodes, or if unknown."""
    return {
        "job": job,
        "expected": NOTHING if expected_s is None else _minutes(expected_s),
        "took": _minutes(actual_s),
        "took / expected": NOTHING if expected_s is None else f"{actual_s / expected_s:.2f}",
        **_spent(None if nodes is None else Span(actual_s, actual_s) * nodes, price),
    }


def _spent(node_seconds: Span | None, price: InstancePrice | None) -> Cells:
    """Minutes of nodes, and their money if known."""
    known = {"node-minutes": NOTHING if node_seconds is None else node_seconds.text(_minutes)}
    money = NOTHING if node_seconds is None or price is None else _usd(node_seconds, price)
    return known | ({} if price is None else {"USD": money})


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.1f}" if seconds < 6000 else f"{seconds / 60:,.0f}"


def _usd(node_seconds: Span, price: InstancePrice) -> str:
    return (node_seconds * (price.usd_per_hour / 3600)).text(
        lambda usd: f"{usd:,.0f}" if usd >= 10 else f"{usd:.2f}"
    )


def _size(size: int) -> str:
    return bytes_text(size) if size < MIB else f"{figures(size / MIB)} MiB"
