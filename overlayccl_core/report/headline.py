"""The deployed arm of each model and its gain: words, step time against memory, every other arm beside it."""

from collections.abc import Iterator

from overlayccl_core.measuring.arms import arm_label, arm_meaning
from overlayccl_core.report import memory, passes
from overlayccl_core.report.blocks import (
    INTERVALS,
    NOTHING,
    TIMES,
    Block,
    Card,
    Cards,
    TableBlock,
    Text,
    mebibytes,
    missing,
    ms,
    table_of,
    times,
    worded,
)
from overlayccl_core.report.sentences import KNOWN, added_nothing, brief, cautions, first_up
from overlayccl_core.report.tree import Tree, sourced
from overlayccl_core.report.worth import Worth
from overlayccl_core.tables.deployed import Part
from overlayccl_core.tables.steps import CONFIRMED_STEPS

FIRST = (
    "A step (forward, backward, optimizer; the slowest rank counts) trains on one batch, split into M microbatches "
    "(M = 1: whole). An arm is one way of communicating in a step; all compute the same batch, so steps compare "
    "across M. The rival is the fastest arm that needs no search, at any M, with no more memory than the chosen "
    "one. If the chosen one is slower, the rival is deployed, or torch's own is to be kept. A launch starts all "
    "ranks anew; all figures here are of launches made after selection."
)
WORDS = (
    (
        "timed after selection",
        "the file to deploy, step by step in turn with every arm that needs no search at its M, and with the "
        "fastest of training at other M",
    ),
    ("ratio", "how many times as fast the chosen arm is (2: twice as fast)"),
    (
        "faster, not slower, slower",
        "the interval lies above 1.02; its low end is at least 0.95; it lies below 0.98; else undecided",
    ),
    ("call, pass", "one call of the collective library; all exchanges of a Case once"),
)


def cards_of(tree: Tree) -> Cards:
    """Return one card for each model."""
    with tree.reading() as read:
        cards = tuple(map(_card, tree.worths))
        tree.cite(CONFIRMED_STEPS)
    return Cards(cards=cards, sources=frozenset(read))


def blocks(tree: Tree) -> list[Block]:
    """Return each model's figure and table (its words are on its card), then the bench of Cases without a model."""
    if tree.deployed is None:
        return [
            missing(
                "Nothing was timed again after the choice in this run, so no gain is told.",
                f"Run: {tree.command}",
            )
        ]
    parts = _ways(tree)
    if parts:
        words = TableBlock(title="Words used here", headers=("word", "meaning"), rows=WORDS, folded=True)
        parts = [Text(text=FIRST), *parts, words, *_meanings(tree), Text(text=INTERVALS)]
    else:
        trained = tree.deployed["trained_in"].is_not_null().any()
        how = f"Run: {tree.command}" if trained else "No model is configured for its Problems."
        parts.append(missing("No model was trained in this run, so there are no step times.", how))
    return [*parts, *passes.blocks(tree)]


@sourced
def _ways(tree: Tree) -> Iterator[Block]:
    for worth in tree.worths:
        yield from memory.figures(worth)
        yield _table(worth)


def _tone(worth: Worth) -> str:
    """Rate the verdict alone: a gain beyond noise is good, a known way plain, anything else a warning."""
    if worth.deployed is None or worth.instead or worth.disturbed or worth.quicker:
        return "warning"
    speedup = worth.speedup_over(worth.rival)
    if worth.needs_no_search(worth.rival) or (speedup and speedup.word == "not slower"):
        return "plain"
    return "good" if speedup and speedup.beyond_noise else "warning"


def _card(worth: Worth) -> Card:
    rival = worth.rival
    speedup = worth.speedup_over(rival)
    if worth.instead is not None:
        head, unit = worth.use, f"at M = {worth.instead.microbatches}, in place of what was chosen"
    elif worth.needs_no_search(rival):
        other = [f"{first_up(worth.best)}: {rival.name} ({rival.figures})."] if rival else []
        head, unit = KNOWN, " ".join([*added_nothing(worth), *other])
    elif rival is None or speedup is None:
        head, unit = NOTHING, "there is no rival"
    else:
        interval = worded(speedup).removeprefix(f"{speedup.value:.2f}{TIMES}")
        head, unit = f"{speedup.value:.2f}{TIMES}", f"as fast as {worth.best}, {rival.name}{interval}"
    return Card(
        title=worth.model,
        lead=" ".join(cautions(worth)),
        figure=head,
        unit=unit,
        lines=tuple(brief(worth)),
        tone=_tone(worth),
    )


@sourced
def _meanings(tree: Tree) -> Iterator[Block]:
    names = dict.fromkeys(split.arm for worth in tree.worths for split in worth.splits)
    yield TableBlock(
        title="What the arms are",
        headers=("arm", "meaning"),
        rows=tuple((arm_label(name), arm_meaning(name)) for name in names),
        folded=True,
    )


_MARKS = {Part.RIVAL: " (rival)", Part.INSTEAD: " (in its place)"}


def _table(worth: Worth) -> TableBlock:
    return table_of(
        f"{worth.model}: ways to split its batch and to communicate",
        worth.splits,
        {
            "split into, arm": lambda s: f"M = {s.microbatches}, {arm_label(s.arm)}{_MARKS.get(s.part, '')}",
            "step time": lambda s: ms(s.step_us),
            "peak memory, a rank": lambda s: mebibytes(s.peak_memory_bytes),
            "step over that of what was chosen (95% interval)": lambda s: times(s.deployed_speedup),
            "what was chosen is": lambda s: s.deployed_speedup.word if s.deployed_speedup else NOTHING,
            "needs search": lambda s: "yes" if s.needs_search else "no",
            "the same Programs as": lambda s: NOTHING if s.ran_as == s.arm else arm_label(s.ran_as),
        },
        numeric=frozenset(range(1, 7)),
        strong=frozenset(n for n, one in enumerate(worth.splits) if one is (worth.instead or worth.deployed)),
        folded=True,
    )
