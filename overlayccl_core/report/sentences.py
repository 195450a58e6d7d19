"""The first sentences of a run, on the screen and in the report: the arm to use, and its gain."""

from collections.abc import Iterator, Mapping
from typing import Any

from overlayccl_core.measuring.arms import ArmName, arm_label, is_framework, use_text
from overlayccl_core.measuring.statistics import Ratio
from overlayccl_core.report.blocks import TIMES, columns_ratio, count, mebibytes, ms, times, worded
from overlayccl_core.report.worth import SplitRow, Worth
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.deployed import Use

Row = Mapping[str, Any]
KNOWN = "no search needed"  # in place of a gain between two known ways
CHOSEN = "known ways, chosen by measuring"
DISTURBED = "Disturbed: others took CPU time in most of these launches. Measure again on a quiet machine."
PLACED = "It has the place in deploy/, by the same launches that tell its gain."
EMPTY = "No file in deploy/ has a Case of this model: keep or take torch's own in your script."
SHARED = (
    "deploy/ still has what was chosen, as another step with the same Case does not say the same: write the faster "
    "calls in your script"
)


def warnings(worth: Worth) -> list[str]:
    """Return the sentences to read before any gain: on the deployed arm, then on other counts of microbatches."""
    return [*_of_deployed(worth), *added_nothing(worth), *_of_others(worth)]


def cautions(worth: Worth) -> list[str]:
    """Return the warnings, without the one on a known way if the figure says so."""
    said = worth.needs_no_search(worth.rival)
    return [*_of_deployed(worth), *(() if said else added_nothing(worth)), *_of_others(worth)]


def added_nothing(worth: Worth) -> Iterator[str]:
    """Say that a known way was chosen."""
    if worth.deployed is not None and worth.known:
        chosen, own = arm_label(worth.deployed.ran_as), "the calls that a script without deploy/ makes"
        whose = own if worth.is_developers else "which people write"
        yield f"The search added nothing here: what was chosen is {chosen}, {whose}."


def _of_deployed(worth: Worth) -> Iterator[str]:
    if worth.deployed is None:
        yield "Nothing that was chosen was timed in its steps, so no gain is told."
    elif worth.instead is not None:
        yield from _instead(worth)
    else:
        yield from _undecided(worth)
        yield from _whole_batch(worth)


def _of_others(worth: Worth) -> Iterator[str]:
    if worth.deployed is None:
        return
    yield from quicker(worth)
    yield from _elsewhere(worth)
    if worth.disturbed:
        yield DISTURBED


def quicker(worth: Worth) -> Iterator[str]:
    """Name arms faster than what stands: each takes more memory, or came late.

    No interval is told beside an arm in place of the choice: in the tables each arm's is over the choice.
    """
    instead = worth.instead
    stands = instead or worth.deployed
    held = (stands and stands.peak_memory_bytes) or 0
    for one in worth.quicker:
        more = (one.peak_memory_bytes or 0) > held
        memory = f" with more memory ({mebibytes(one.peak_memory_bytes)})" if more else ""
        if instead is None:
            said, ratio = "is faster", f"what was chosen is {times(one.deployed_speedup)}"
        else:
            said, ratio = "measured faster", f"{instead.name} is {one.step_us / instead.step_us:.2f}{TIMES}"
        yield f"{first_up(one.name)} {said}{memory}: {ratio} as fast."


def brief(worth: Worth) -> list[str]:
    """Name the deployed arm, and its gain over developer."""
    mine = worth.deployed
    return [] if mine is None else [_deployed(worth, mine), *_over_developer(worth, mine)]


def facts(worth: Worth) -> list[str]:
    """Name the deployed arm, its gains over others, and the file's overhead."""
    mine = worth.deployed
    if mine is None:
        return []
    return [
        _deployed(worth, mine),
        _over_rival(worth),
        *over_fastest(worth),
        *_over_developer(worth, mine),
        *_overhead(worth),
        f"Measured in {count(worth.launches, 'launch', 'launches')} that chose "
        f"{'nothing but what takes the place' if worth.replaced else 'nothing'}.",
    ]


def _deployed(worth: Worth, mine: SplitRow) -> str:
    what = "Chosen" if worth.instead else "Deployed"
    candidates = " and ".join(worth.candidates.get(mine.microbatches, ()))
    return (
        f"{what}: {_split_into(mine.microbatches)}, {candidates}: {ms(mine.step_us)} a step, "
        f"{mebibytes(mine.peak_memory_bytes)} of memory."
    )


def place_text(row: Row) -> str:
    """Return Case and direction of a row of `deployed`: `tp_mlp/n4-m8-l8-32KiB-f32, forward`."""
    return f"{row['case']}, {row['direction']}"


def case_warnings(row: Row) -> Iterator[str]:
    """Warn about a row of `deployed` before its gains. For a trained Case, the step's sentences do."""
    if row["trained_in"]:
        return
    gain, of_module = columns_ratio(row, "gain"), columns_ratio(row, "of_module")
    if of_module is not None and of_module.slower:
        yield (
            f"{place_text(row)}: the file is {times(of_module)} as fast as the same Program without the file's "
            "checks before each call."
        )
    if row["instead"]:
        yield (
            f"{place_text(row)}: {use_text(row['instead'])}, which needs no search: what was chosen is "
            f"{times(gain)} as fast. {PLACED}"
        )
    elif row["measured_us"] is None:
        yield f"{place_text(row)}: what is deployed was not timed again, so no gain is told."
    elif gain is not None and gain.word == "undecided" and not case_known(row):
        other = f"{arm_label(row['best_other'])}, which needs no search"
        yield f"{place_text(row)}: it is undecided whether what is deployed is faster than {other}: {times(gain)}."


def case_facts(row: Row) -> Iterator[str]:
    """Name the choice of a row of `deployed` that no model trains, and its gains in the launches after it."""
    if row["instead"] is None and row["arm"] == ArmName.DEVELOPER:
        yield "Nothing is faster than developer beyond noise: keep the calls that you have."
        return
    known = "developer's way" if row["arm"] == ArmName.DEVELOPER else "a known way"
    yield f"Chosen: {row['way']}, {'found by a search' if is_found(row['candidate']) else known}."
    if row["measured_us"] is not None:
        over = {"developer": columns_ratio(row, "speedup")}
        if row["best_other"] not in (None, ArmName.DEVELOPER):
            over[arm_label(row["best_other"])] = columns_ratio(row, "gain")
        gains = (f"over {name} {worded(ratio)}" for name, ratio in over.items() if ratio)
        launches = count(row["launches"], "fresh launch", "fresh launches")
        said = "; ".join([f"{ms(row['measured_us'])} a pass", *gains])
        yield f"Timed again after the choice, in {launches}: {said}."
    if row["instead"] and row["in_file"]:
        yield f"The file has {row['in_file']} in its place."


def case_known(row: Row) -> bool:
    """Tell whether a row of `deployed` is a known way, timed alone, that measured no slower than the best other."""
    stands = row["use"] == Use.KNOWN and row["instead"] is None and row["measured_us"] is not None
    return stands and (row["gain"] is None or row["gain"] >= 1)


def _instead(worth: Worth) -> Iterator[str]:
    """Name the arm to use in place of the choice, at its fastest count."""
    mine, better = worth.deployed, worth.instead
    if mine is not None and better is not None:
        less, speedup = "the same or less memory", times(better.deployed_speedup)
        yield (
            f"{first_up(worth.use)} at M = {better.microbatches}, which needs no search, at {less}: what was "
            f"chosen (M = {mine.microbatches}) is {speedup} as fast. {_placed(worth, better)}"
        )


def _placed(worth: Worth, better: SplitRow) -> str:
    """Say what deploy/ has in place of the choice. The framework's own is to be kept at every count."""
    keeps = is_framework(better.arm)
    counts = worth.candidates.keys() if keeps else (better.microbatches,)
    lacking = sorted(m for m in counts if m not in worth.replaced)
    if not lacking:
        return EMPTY if keeps else PLACED
    if len(lacking) == len(counts):
        return f"But {SHARED}."
    return f"But at M = {', '.join(map(str, lacking))} {SHARED}."


def _elsewhere(worth: Worth) -> Iterator[str]:
    """Name the arms in place of the choice at counts without deployment."""
    better = worth.instead
    if better is not None and is_framework(better.arm):
        return
    for m, arm in sorted(worth.replaced.items()):
        if better is None or m != better.microbatches:
            yield f"At another count, M = {m}, {use_text(arm)}: what was chosen there is slower."


def _undecided(worth: Worth) -> Iterator[str]:
    rival = worth.rival
    speedup = worth.speedup_over(rival)
    if rival is None or speedup is None or worth.needs_no_search(rival):
        return
    if speedup.word == "undecided":
        yield (
            f"It is undecided whether what is deployed is faster than {rival.name}, which needs no search: "
            f"{times(speedup)}."
        )


def _whole_batch(worth: Worth) -> Iterator[str]:
    mine, rival = worth.deployed, worth.rival
    if mine is None:
        return
    if mine.microbatches == 1:
        split = [one for one in worth.splits if one.microbatches != 1]
        speedup = worth.speedup_over(min(split, key=lambda one: one.step_us, default=None))
        if speedup and speedup.value >= 1:
            wins = "wins" if speedup.beyond_noise else "may win"
            yield f"Not splitting the batch {wins}: what is deployed computes it whole (M = 1)."
        return
    speedup = worth.speedup_over(rival)
    if rival is not None and rival.microbatches == 1 and speedup and speedup.value < 1:
        yield f"Not splitting the batch (M = 1) may win: what was chosen splits it into {mine.microbatches}."


def _over_rival(worth: Worth) -> str:
    rival = worth.rival
    if rival is None or not (speedup := worth.speedup_over(rival)):
        return f"There is no rival: nothing beside it is {worth.best}."
    if worth.needs_no_search(rival):
        return f"{first_up(KNOWN)}: {CHOSEN}. {first_up(worth.best)}: {rival.name} ({rival.figures})."
    return f"Over {worth.best}, {rival.name} ({rival.figures}): {worded(speedup)}."


def over_fastest(worth: Worth) -> Iterator[str]:
    """Tell the gain over the fastest at any memory."""
    fastest = worth.fastest
    if fastest is None or not (speedup := worth.speedup_over(fastest)):
        return
    if fastest is worth.rival:
        yield f"{first_up(fastest.name)} is {worth.best_of_all}, too."
    elif worth.needs_no_search(fastest):
        yield f"{first_up(worth.best_of_all)}: {fastest.name} ({fastest.figures})."
    else:
        yield f"Over {worth.best_of_all}, {fastest.name} ({fastest.figures}): {worded(speedup)}."


def _over_developer(worth: Worth, mine: SplitRow) -> Iterator[str]:
    """Tell the gain over developer at the same count, and at its fastest count, unless that is the rival."""
    alone, here = worth.developer, worth.split_at(mine.microbatches, ArmName.DEVELOPER)
    if here is not worth.rival and (speedup := worth.speedup_over(here)):
        also = ", where developer alone is fastest" if here is alone else ""
        yield f"{_over(worth)} developer at M = {mine.microbatches}{also}: {worded(speedup)}."
    if alone is not None and alone not in (here, worth.rival) and (speedup := worth.speedup_over(alone)):
        name = f"developer at M = {alone.microbatches}, where developer alone is fastest"
        yield f"{_over(worth)} {name}: {worded(speedup)}."


def _over(worth: Worth) -> str:
    return "By that choice among known ways, over" if worth.known else "Over"


def _overhead(worth: Worth) -> Iterator[str]:
    """Compare the file's step with the chosen module's: the file's overhead, without its groups."""
    module = worth.generator
    if module is not None and (speedup := module.deployed_speedup) is not None:
        low, high = (None if end is None else 1 / end for end in (speedup.high, speedup.low))
        ratio = Ratio(value=1 / speedup.value, low=low, high=high)
        name = arm_label(module.arm)
        yield f"The chosen file's step is {times(ratio)} that of its module ({name})."


def _split_into(microbatches: int) -> str:
    return f"the batch {'whole' if microbatches == 1 else f'in {microbatches} microbatches'} (M = {microbatches})"


def first_up(text: str) -> str:
    """Capitalize the first letter."""
    return text[:1].upper() + text[1:]
