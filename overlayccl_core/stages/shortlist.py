"""shortlist: the proven Programs of each Case and direction to time, and why. Needs no ranks.

It lists all proven known ways that are written out, and what was chosen in another tree (rule redeployed). From
derived ways and finds of the search it takes the cheapest Program of each of the most promising families (derived
ways are one); proven ones drawn at random (without them a regret would be over the model's own favourites); the
cheapest of each family that overlaps with the model's computing (this price sees no computing); and the next
cheapest up to a number. A lossy find is left out if the developer's own sums keep all bits: it could not be chosen
before lossless ones.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sections import ShortlistSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.predictions import places, predictions, rows_at
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.kinds import IssueOrder
from overlayccl_core.program.library import Role
from overlayccl_core.program.lowering import overlaps
from overlayccl_core.program.numerics import NumericsClass, loses
from overlayccl_core.program.problem import Place
from overlayccl_core.program.program import Program
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.shortlist import SHORTLIST, Why

Row = dict[str, Any]
Emit = Callable[[Program], str]
_COPIED = ("origin", "recipe", "numerics", "program", "value_digest", "program_json")
ROLES = tuple(role.value for role in Role)
DERIVED = Role.DERIVED.value  # family of derived ways, if the search has none of them


@dataclass(slots=True, kw_only=True)
class _Entry:
    """A proven Program on its way into the list: its row, its price (infinite: none)."""

    name: str
    roles: tuple[str, ...]  # of a known way written out; empty for others
    row: Row
    family: str | None
    us: float
    why: list[str] = field(default_factory=list)


def main(job: RuleJob) -> None:
    """Write the table shortlist of one Problem."""
    rows = run(
        Settings.from_part(job.option("settings")),
        job.read(KNOWN_WAYS),
        job.read(PRICES),
        job.read_all(CANDIDATES),
        backend_of(load(job.option("deployment"))).emit,
        progress=job.say,
    )
    job.write({SHORTLIST: rows})


def run(
    settings: Settings,
    ways: pl.DataFrame,
    prices: pl.DataFrame,
    candidates: pl.DataFrame,
    emit: Emit,
    *,
    progress: Callable[[str], None],
) -> list[Row]:
    """Return the rows of `shortlist`; the same for the same input, sorted by role and name.

    Args:
        candidates: Of all searches, one after the other; may be empty.
        emit: Of the backend.

    Raises:
        ValueError: The developer's own Program is not proven, or no Case has anything to choose.
    """
    predicted = {key: one.us for key, one in predictions(prices, candidates).items()}
    rows: list[Row] = []
    for place in places(ways):
        proven = _proven(rows_at(ways, place))
        if any(row["collectives"] == 0 for row in proven):
            progress(f"{' '.join(place)}: a proven Program exchanges nothing, so there is nothing to choose")
            continue
        _check_developer(place, rows_at(ways, place))
        entries = _entries(place, proven, _proven(rows_at(candidates, place)), predicted)
        listed = _chosen(place, entries, settings.shortlist, emit)
        progress(f"{' '.join(place)}: {len(listed)} of {len(entries)} proven Programs: {_counts(listed)}")
        rows += [_row(place, entry) for entry in listed]
    if not rows:
        raise ValueError("no Case has anything to be chosen: each is solved without any exchange")
    return rows


def _proven(frame: pl.DataFrame) -> list[Row]:
    """Return the rows with a legal and proven Program."""
    passed = (pl.col("legality") == Outcome.PASS) & (pl.col("equivalence") == Outcome.PASS)
    return list(frame.filter(passed & pl.col("program_json").is_not_null()).iter_rows(named=True))


def _check_developer(place: Place, ways: pl.DataFrame) -> None:
    (row,) = ways.filter(pl.col("role") == Role.DEVELOPER.value).iter_rows(named=True)
    if not _proven(ways.filter(pl.col("role") == Role.DEVELOPER.value)):
        raise ValueError(
            f"{' '.join(place)}: {row['strategy']}, what all others are compared with, is not legal and proven "
            f"here ({row['message']}): mend it, or leave this Case out of the configuration"
        )


def _entries(
    place: Place, ways: Iterable[Row], finds: Iterable[Row], predicted: dict[tuple[str, str, str], float]
) -> list[_Entry]:
    """Return every Program once; finds with equal values are the known way's, and give it their family.

    A derived way has no role: as for a find, its price decides whether it is timed.
    """
    entries: dict[str, _Entry] = {}
    by_value: dict[str, list[_Entry]] = {}
    for row in ways:
        us = predicted.get((*place, row["program"]), inf)
        role, derived = row["role"], row["role"] == Role.DERIVED
        if row["program"] in entries:
            entries[row["program"]].roles += (role,)
            continue
        origin = "developer" if role == Role.DEVELOPER.value else "known"
        entry = _Entry(
            name=row["strategy"],
            roles=() if derived else (role,),
            row=row | {"origin": origin},
            family=DERIVED if derived else None,
            us=us,
        )
        entries[row["program"]] = entry
        by_value.setdefault(row["value_digest"], []).append(entry)
    for row in finds:
        if known := by_value.get(row["value_digest"]):
            for entry in known:
                entry.family = row["family"] if entry.family in (None, DERIVED) else entry.family
        else:
            us = predicted.get((*place, row["program"]), inf)
            entry = _Entry(name=row["candidate"], roles=(), row=row, family=row["family"], us=us)
            entries[row["program"]] = entry
            by_value[row["value_digest"]] = [entry]
    return list(entries.values())


def _chosen(place: Place, entries: Sequence[_Entry], settings: ShortlistSection, emit: Emit) -> list[_Entry]:
    """Fill in `why` and return the entries with a reason, sorted."""
    ways = [entry for entry in entries if entry.roles]
    for entry in ways:
        entry.why = [role for role in ROLES if role in entry.roles and role != Role.OTHER.value] or [
            Why.KNOWN
        ]
    for entry in entries:
        if entry.row.get("search") == Why.REDEPLOYED:
            entry.why.append(Why.REDEPLOYED)
    rounds = _rounds(ways)
    usable = [e for e in entries if rounds or e.row["numerics"] != NumericsClass.LOSSY]
    cheapest = _without_twins(sorted(usable, key=lambda e: (e.us, e.name)))
    told_apart = _in_one_order(cheapest)
    priced = [e for e in told_apart if e.us < inf]
    finds = _Finds(emit, (e for e in entries if e.why))
    finds.add(Why.BEST_PREDICTED, priced, 1)
    finds.add(Why.FAMILY, _first_of_families(priced), settings.families)
    drawn = sorted((e for e in told_apart if not e.why), key=lambda e: _draw(settings.seed, place, e))
    finds.add(Why.RANDOM, drawn, settings.random)
    overlapping = (e for e in cheapest if overlaps(loads(e.row["program_json"])))
    finds.add(Why.OVERLAPS, _first_of_families(overlapping), settings.overlapping)
    rest = [e for e in told_apart if not e.why]
    finds.add(Why.NEXT_CHEAPEST, rest, settings.at_least - sum(bool(e.why) for e in entries))
    return sorted((e for e in entries if e.why), key=_order)


def _rounds(entries: Iterable[_Entry]) -> bool:
    """Return whether the developer's own Program adds up in few bits: then a find that does is no worse."""
    developers = (loads(e.row["program_json"]) for e in entries if Role.DEVELOPER.value in e.roles)
    return any(loses(program.outputs.values()) for program in developers)


class _Finds:
    """Finds of the search on their way into the list; of those with the same module, the first.

    Labels may tell apart two Programs with equal modules: they would be timed, and trained, twice.
    """

    def __init__(self, emit: Emit, ways: Iterable[_Entry]) -> None:
        self.emit = emit
        self.first: dict[str, _Entry] = {}
        for entry in ways:
            self.first.setdefault(self.code(entry), entry)

    def add(self, why: Why, entries: Iterable[_Entry], most: int) -> None:
        """Give the first `most` of `entries` a reason. Known ways count, but their rows tell nothing of prices."""
        for entry in entries:
            if most <= 0:
                return
            if not entry.roles:
                if self.first.setdefault(self.code(entry), entry) is not entry:
                    continue
                entry.why.append(why)
            most -= 1

    def code(self, entry: _Entry) -> str:
        """Return the module without the digest in it."""
        program = loads(entry.row["program_json"])
        return self.emit(program).replace(program.digest, "")


def _first_of_families(cheapest: Iterable[_Entry]) -> list[_Entry]:
    first: dict[str, _Entry] = {}
    for entry in cheapest:
        if entry.family is not None:
            first.setdefault(entry.family, entry)
    return list(first.values())


def _without_twins(entries: Sequence[_Entry]) -> list[_Entry]:
    """Drop finds that run as a known way does, or as a find before them: only labels tell them apart."""
    first: dict[str, _Entry] = {}
    for entry in sorted(entries, key=lambda e: not e.roles):
        first.setdefault(loads(entry.row["program_json"]).run_digest, entry)
    kept = {id(entry) for entry in first.values()}
    return [e for e in entries if e.roles or id(e) in kept]


def _in_one_order(entries: Sequence[_Entry]) -> list[_Entry]:
    """Drop entries like another in a bench: same family and price, only in another order of issue."""
    seen = {(e.family, e.us) for e in entries}
    kept = []
    for entry in entries:
        as_written = (_in_order_written(entry.family), entry.us)
        if as_written[0] == entry.family or as_written not in seen:
            kept.append(entry)
        seen.add(as_written)
    return kept


def _in_order_written(family: str | None) -> str | None:
    """Return the family of the same calls as written."""
    words = {order.words for order in IssueOrder}
    return family and ", ".join(word for word in family.split(", ") if word not in words)


def _draw(seed: int, place: Place, entry: _Entry) -> str:
    """Return a random key, independent of the other entries."""
    return hashlib.sha256(f"{seed};{place};{entry.row['value_digest']}".encode()).hexdigest()


def _order(entry: _Entry) -> tuple[int, str]:
    best = min((ROLES.index(role) for role in entry.roles), default=len(ROLES))
    return best, entry.name


def _counts(listed: Iterable[_Entry]) -> str:
    counted: dict[str, int] = {}
    for entry in listed:
        for why in entry.why:
            counted[why] = counted.get(why, 0) + 1
    return ", ".join(f"{count} {why}" for why, count in counted.items())


def _row(place: Place, entry: _Entry) -> Row:
    return {
        "case": place[0],
        "direction": place[1],
        "candidate": entry.name,
        "why": entry.why,
        "family": entry.family,
        **{name: entry.row[name] for name in _COPIED},
    }
