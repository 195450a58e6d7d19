"""The page of the target `sweep_payload`: at which payloads a known way beats the library's own call."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.measuring.statistics import FEWEST_LAUNCHES, FEWEST_ROUNDS, Ratio
from overlayccl_core.report.blocks import (
    Block,
    Figure,
    PageSection,
    Text,
    bandwidth,
    columns_ratio,
    count,
    ms,
    page_sources,
    spread,
    table_of,
    times,
    with_sources,
    worded,
)
from overlayccl_core.report.by_size import DASHES, Look, SizeAxis, SizePoint, lines
from overlayccl_core.report.charts import Ink
from overlayccl_core.report.rendering import page_of
from overlayccl_core.tables.sweep_payload import PAYLOAD_TIMES

LEAD = "Known ways by payload: at which sizes is one faster than the library's own call?"
FASTEST = "the fastest"
ACROSS = SizeAxis(title="payload of a rank", name=bytes_text)
_OTHERS = (Ink.BLUE, Ink.GREEN, Ink.PURPLE, Ink.SKY, Ink.YELLOW, Ink.GREY)
Row = Mapping[str, Any]


def page(times_of: pl.DataFrame, name: str) -> str:
    """Return the HTML. times_of: the table `payload_times`; name: of the run."""
    section = PageSection(
        anchor="payloads",
        title="Known ways by payload",
        blocks=with_sources(page_sources(PAYLOAD_TIMES), _blocks(times_of)),
    )
    about = (
        f"{count(times_of['payload_bytes'].n_unique(), 'payload')}, {count(times_of.height, 'proven way')}."
    )
    return page_of(name, about, LEAD, section)


def sentence(times_of: pl.DataFrame) -> str:
    """Say at which payloads nothing beats the library's own call, then where something does."""
    if times_of["disturbed"].any():
        return (
            "Others took too much of the CPU while the ways were timed, so nothing is said of them. Time them "
            "again on a quiet machine: --forcerun time_payloads."
        )
    if not times_of.filter(pl.col("gain").is_not_null() & pl.col("gain_low").is_null()).is_empty():
        return (
            f"Too few rounds to judge by ({min(times_of['rounds'])} that say how long it takes). Give "
            f"sweep_payload.seconds more, for at least {FEWEST_ROUNDS}."
        )
    fastest = times_of.filter("fastest").sort("payload_bytes")
    own = " or ".join(times_of.filter("developer")["way"].unique(maintain_order=True))
    faster = [row for row in fastest.iter_rows(named=True) if _gain(row).beyond_noise]
    won = {row["payload_bytes"] for row in faster}
    lost = [size for size in fastest["payload_bytes"] if size not in won]
    of = count(fastest.height, "payload")
    if not faster:
        return f"Nothing beats the library's own call ({own}) beyond noise, at any of {of} ({_ranges(lost, lost)})."
    known = fastest["payload_bytes"].to_list()
    nothing = f"at {len(lost)} ({_ranges(lost, known)})" if lost else "at none"
    said = ", ".join(
        f"{bytes_text(row['payload_bytes'])} {times(_gain(row))} by {row['way']}" for row in faster
    )
    return (
        f"Of {of} nothing beats the library's own call ({own}) beyond noise {nothing}. At {len(faster)} something "
        f"does: {said}."
    )


def _gain(row: Row) -> Ratio:
    """Return the developer's time over a way's; 1 of its own."""
    return columns_ratio(row, "gain") or Ratio(value=1.0, low=1.0, high=1.0)


def _ranges(some: list[int], of: list[int]) -> str:
    """Write sizes as `2KiB, 16KiB to 1MiB`: neighbours in `of` together."""
    runs: list[list[int]] = []
    for size in some:
        if runs and of.index(size) == of.index(runs[-1][-1]) + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(" to ".join(bytes_text(end) for end in dict.fromkeys((run[0], run[-1]))) for run in runs)


def _blocks(times_of: pl.DataFrame) -> Iterator[Block]:
    yield Text(text=sentence(times_of))
    launches = int(times_of["launches"].min() or 0)  # type: ignore[arg-type]
    over = "over launches" if launches >= FEWEST_LAUNCHES else "over rounds, and allow for another launch"
    yield Text(
        text=(
            "All ways at all payloads were timed in the same rounds. Each is a known way, whole or with each of "
            "its calls in two or four parts in flight, and each is proven. The odd rounds choose what is fastest "
            "at a payload, the even ones say how long it takes: what was chosen for being fast would look faster "
            f"than it is. Intervals are {over} ({launches}). What wins alone need not win in a step: there a call "
            "has work beside it."
        )
    )
    yield _times(times_of)
    yield _gains(times_of)
    yield table_of(
        "Each way, by its even rounds",
        times_of.sort("payload_bytes", "time_us").iter_rows(named=True),
        {
            "payload": lambda row: bytes_text(row["payload_bytes"]),
            "way": lambda row: row["way"],
            "time": lambda row: spread(Ratio(value=row["time_us"], low=row["low_us"], high=row["high_us"])),
            "busbw GB/s": lambda row: bandwidth(row["busbw_gbps"]),
            "times as fast as the library's own call": lambda row: worded(columns_ratio(row, "gain")),
            "role": _role,
        },
        numeric=frozenset(range(2, 5)),
        folded=True,
    )


def _role(row: Row) -> str:
    roles = {"developer": "the library's own call", "fastest": FASTEST}
    return ", ".join(words for name, words in roles.items() if row[name])


def _times(times_of: pl.DataFrame) -> Figure:
    """Draw the library's own call, and the best way of each family."""
    points = []
    for row in times_of.iter_rows(named=True):
        own = row["developer"]
        if own or row["best_of_family"]:
            us = row["time_us"]
            points.append(
                SizePoint(
                    line=_own(row) if own else f"best of {row['family']}",
                    size=row["payload_bytes"],
                    value=us / 1e3,
                    low=row["low_us"] and row["low_us"] / 1e3,
                    high=row["high_us"] and row["high_us"] / 1e3,
                    text=f"{bytes_text(row['payload_bytes'])}, {row['way']}: {ms(us)}",
                )
            )
    own_lines = [_own(row) for row in times_of.filter("developer").iter_rows(named=True)]
    families = [line for line in dict.fromkeys(point.line for point in points) if line not in own_lines]
    looks: dict[str, Look] = dict.fromkeys(own_lines, (Ink.ORANGE, DASHES[0]))
    looks |= {
        line: (_OTHERS[number % len(_OTHERS)], DASHES[(number + 1) % len(DASHES)])
        for number, line in enumerate(families)
    }
    return lines(
        "Time by payload",
        "The best of a family: whole or in parts, by the odd rounds at each payload. Times: even rounds.",
        points,
        looks,
        ACROSS,
        "ms",
    )


def _own(row: Row) -> str:
    return f"{row['way']}, the library's own call"


def _gains(times_of: pl.DataFrame) -> Figure:
    points = []
    for row in times_of.filter("fastest").iter_rows(named=True):
        gain = _gain(row)
        text = f"{bytes_text(row['payload_bytes'])}, {row['way']}: {times(gain)}"
        points.append(
            SizePoint(
                line=FASTEST,
                size=row["payload_bytes"],
                value=gain.value,
                low=gain.low,
                high=gain.high,
                text=text,
            )
        )
    return lines(
        "The fastest way over the library's own call",
        "Above 1: faster than the library's own call. Where that is itself the fastest, the ratio is 1.",
        points,
        {FASTEST: (Ink.BLUE, DASHES[0])},
        ACROSS,
        "times as fast",
        level=1.0,
    )
