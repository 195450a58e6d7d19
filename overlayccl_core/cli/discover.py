"""`overlayccl discover`: which ranks are near to one another, and is the deployment declared so?

Start the deployment's ranks once, time exchanges between pairs of them, and find tiers: units of ranks that are
nearer to one another than to others. Up to ten ranks: all pairs. More: a sample of at most 1.5 N log2 N pairs.
A declaration that the times contradict is refused: of tiers, or of a link's rate. With -o the found tiers become a
deployment of their own.
"""

import argparse
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType

from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import NOTHING, console, plain_table, print_line, say
from overlayccl_core.configuration.deployment import Deployment, Tier, heir_text
from overlayccl_core.configuration.presets import is_name
from overlayccl_core.configuration.sizes import bytes_text, in_bytes
from overlayccl_core.deployments.tiers import FoundTiers, RankSplit, contradiction, least, reach, slow_pairs
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.measuring.figures import figures
from overlayccl_core.tables.atomic import write_text
from overlayccl_core.timing.pairs import FEWEST, SMALL_BYTES, PairTimes, time_pairs
from overlayccl_core.timing.partial import LOGS, Evidence, once
from overlayccl_core.timing.selftest import LINK

SECONDS = 30.0
PAYLOAD_BYTES = 512 * 1024
LINK_S = 0.028
"""Time on a declared link by which it is judged: of an emulated one a burst, 1.4 ms of its rate, passes at once."""
SHOWN = 3  # slow pairs
RANKS_SHOWN = 8
LEGEND = (
    f"us: an exchange of {SMALL_BYTES} bytes each way. MB/s (10^6 bytes a second): of {{payload}} each way, in "
    "each direction. The least time of a pair counts: others on the machine only add to it. A tier's pairs are "
    "those that no nearer tier holds: their median (least..most)."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the deployment with the found tiers: a new file"
    )
    parser.add_argument(
        "--payload",
        metavar="SIZE",
        help="of an exchange for MB/s (default: 512KiB, or what takes a declared link 28 ms)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="for the ranks (default: %(default)s; at least two rounds)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the declared tiers are the found ones, or these are written; 1 if not."""
    where = context(arguments)
    output, rate = (
        _output(where, arguments.output),
        launcher_of(where.deployment).link_bytes_per_s(where.deployment),
    )
    payload = _payload(rate) if arguments.payload is None else in_bytes(arguments.payload)
    if payload <= SMALL_BYTES or payload % SMALL_BYTES:
        raise ValueError(
            f"--payload {arguments.payload}: make it a multiple of {SMALL_BYTES} bytes, and more"
        )
    if not 0 < arguments.seconds < inf:
        raise ValueError(f"--seconds must be a time above 0 (got {arguments.seconds:g})")
    with once(where.results, "discover-") as folder:
        times = time_pairs(
            where.deployment,
            folder / "pairs",
            Evidence(logs=where.results / LOGS, name="discover"),
            payload_bytes=payload,
            seconds=arguments.seconds,
            progress=say,
        )
    found = FoundTiers.of(times.large_us)
    for part in _parts(where.deployment, times, found, rate):
        console().print(part, highlight=False)
    for line in _remarks(times, found):
        print_line(line)
    return _judged(where, times, found, output, rate)


def _payload(rate: float | None) -> int:
    """Return the bytes of an exchange: at least so many that a declared link is judged, doubled from the usual."""
    payload = PAYLOAD_BYTES
    while rate and payload < rate * LINK_S:
        payload *= 2
    return payload


def _output(where: Context, output: Path | None) -> Path | None:
    """Return the file to write. ValueError unless a deployment may have it."""
    if output is None:
        return None
    folder = where.root / "config" / "deployments"
    if output.suffix != ".yaml" or not is_name(output.stem) or output.absolute().parent != folder.absolute():
        raise ValueError(
            f"--output {output}: name it {folder}/NAME.yaml, in small letters: deployments are there"
        )
    if output.exists():
        raise ValueError(f"--output {output}: it is there already: name another file, or take it away first")
    return output


def _parts(
    deployment: Deployment, times: PairTimes, found: FoundTiers, rate: float | None
) -> Iterator[RenderableType]:
    """Yield the matrix, of few ranks, and the table of the tiers."""
    small, large = least(times.small_us), least(times.large_us)
    ranks = deployment.ranks
    if times.alone:
        yield f"{ranks} ranks, all {times.pairs} pairs, each alone, {times.rounds} rounds: us, MB/s"
        columns = [f">{rank}" for rank in range(ranks)]
        matrix = plain_table(None, "rank", *columns, fold=columns)
        for rank, (us, speeds) in enumerate(zip(small, times.payload_bytes / large, strict=True)):
            matrix.add_row(str(rank), *map(_cell, us, speeds))
        yield matrix
    else:
        every = ranks * (ranks - 1) // 2
        yield (
            f"{ranks} ranks, {times.pairs} of {every} pairs, {times.rounds} rounds: at distances 1, 2, 4, "
            "... and at random, disjoint pairs at a time, which share links"
        )
    headers = ("tier", ">ranks", ">pairs", ">us", ">MB/s", *([">of the link"] if rate else []))
    table = plain_table(None, *headers)
    tier = reach(ranks, found.sizes)
    upper = np.triu(~np.isnan(large), 1)
    for number, one in enumerate(_named(deployment, found.sizes)):
        of_tier = upper & (tier == number)
        speeds = times.payload_bytes / large[of_tier]
        crosses = rate and one.ranks > deployment.ranks_per_node
        share = f"{np.median(speeds) * 1e6 / rate:.0%}" if rate and crosses else NOTHING
        table.add_row(
            one.name,
            str(one.ranks),
            str(len(speeds)),
            _range(small[of_tier]),
            _range(speeds),
            *([share] if rate else []),
        )
    yield table
    yield LEGEND.format(payload=bytes_text(times.payload_bytes))


def _cell(us: float, speed: float) -> str:
    return NOTHING if np.isnan(us) else f"{figures(us)}, {figures(speed)}"


def _range(values: NDArray[np.float64]) -> str:
    if not len(values):
        return NOTHING
    return f"{figures(float(np.median(values)))} ({figures(values.min())}..{figures(values.max())})"


def _named(deployment: Deployment, sizes: Sequence[int]) -> tuple[Tier, ...]:
    """Return tiers of so many ranks, with names."""
    names = {deployment.ranks: "network", deployment.ranks_per_node: "node"}
    return tuple(Tier(name=names.get(size, f"units-of-{size}"), ranks=size) for size in sizes)


def _remarks(times: PairTimes, found: FoundTiers) -> Iterator[str]:
    """Yield what was measured shortly, and what is unlike the rest: ranks, and pairs."""
    if times.rounds < FEWEST:
        yield f"Only {times.rounds} rounds: latencies are those of a busy machine; give it more --seconds"
    for split in found.uneven:
        few = min(split.units, key=len)
        yield (
            f"{_ranks(few)}: {split.between_us / split.within_us:.1f} times as far from the others as these are "
            "from one another: look at the links, and at what else runs there (units of a tier have one size)"
        )
    told = times.alone and not found.uneven  # pairs at once share links
    slow = slow_pairs(times.large_us, found.sizes) if told else []
    for one, other, factor in slow[:SHOWN]:
        yield f"ranks {one} and {other} take {factor:.1f} times as long as the median pair of their tier"
    if slow[SHOWN:]:
        yield f"and {len(slow) - SHOWN} more such pairs"


def _ranks(unit: Sequence[int]) -> str:
    shown = ", ".join(map(str, unit[:RANKS_SHOWN]))
    return f"rank {shown}" if len(unit) == 1 else f"ranks {shown}{', ...' if unit[RANKS_SHOWN:] else ''}"


def _judged(
    where: Context, times: PairTimes, found: FoundTiers, output: Path | None, rate: float | None
) -> int:
    """Write or compare the tiers, and say so; return the exit code."""
    deployment, name = where.deployment, where.deployment.name
    if split := found.scattered:
        say(f"{name}: {_scattered(split)}")
        return 1
    wrong = contradiction(least(times.large_us), found.sizes, [tier.ranks for tier in deployment.tiers])
    tiers = _named(deployment, found.sizes)
    if output is not None:
        text = heir_text(
            deployment, f"`overlayccl discover --deployment {name}` found its tiers.", tiers=tiers
        )
        write_text(output, text)
        print_line(f"{output}: the deployment {output.stem}, {name} with these tiers.")
        return 0
    if wrong:
        say(
            f"{name}: {wrong}: correct its tiers, or write what was found with -o config/deployments/NAME.yaml"
        )
        return 1
    if rate and (slow := _other_rate(deployment, times, rate)):
        say(f"{name}: {slow}")
        return 1
    print_line(f"{name} is declared so.")
    return 0


def _other_rate(deployment: Deployment, times: PairTimes, rate: float) -> str:
    """Return by how much the link between nodes has another rate than the declared one; empty if it has not."""
    if not times.alone or times.payload_bytes < rate * LINK_S:
        why = (
            f"--payload of at least {bytes_text(_payload(rate))}"
            if times.alone
            else "pairs that are timed alone"
        )
        print_line(f"The link's rate was not judged: that takes {why}.")
        return ""
    node = np.arange(deployment.ranks) // deployment.ranks_per_node
    across = np.triu(node[:, None] != node, 1)
    share = float(np.median(times.payload_bytes / least(times.large_us)[across])) * 1e6 / rate
    if LINK[0] <= share <= LINK[1]:
        return ""
    return (
        f"the link between nodes reaches {share:.0%} of its declared {rate * 8 / 1e6:.0f} Mbit/s, and "
        f"{LINK[0]:.0%} to {LINK[1]:.0%} are allowed: correct the rate in its launcher_options, or leave the "
        "machine alone"
    )


def _scattered(split: RankSplit) -> str:
    unit = next(one for one in split.units if one[-1] - one[0] >= len(one))
    return (
        f"{_ranks(unit)} are near to one another, but not consecutive, as ranks of a deployment's tier are: number "
        "the ranks host by host (Slurm: --distribution=block)"
    )
