"""The report: one self-contained HTML page of one or several runs."""

import os
from collections.abc import Sequence
from pathlib import Path

from overlayccl_core.report import (
    captured,
    deployed,
    gain,
    headline,
    language_models,
    overlap,
    prediction,
    price_chart,
    rejections,
    spending,
    training,
)
from overlayccl_core.report.blocks import PageSection
from overlayccl_core.report.rendering import RunPart, rendered
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.rows import TableError

LEAD = (
    "How the collective library is to be called: what was chosen, what it is worth in a real training step, and "
    "how that is known."
)
LINKS = (
    "Links lead to files of this folder; where the page stands without it, as in Snakemake's own report, they "
    "lead nowhere."
)
OPEN = ("worth", "captured")  # other sections are folded
TITLES = {
    "worth": ("What it is worth", headline.blocks),
    "captured": ("The captured step", captured.blocks),
    "gain": ("Where the gain comes from", gain.blocks),
    "overlap": ("What overlap is worth", overlap.blocks),
    "deployed": ("What is deployed", deployed.blocks),
    "model": ("Predicted and measured", prediction.blocks),
    "price": ("What the price is made of", price_chart.blocks),
    "training": ("Training, by which it was chosen", training.blocks),
    "sketched": ("What language models were asked", language_models.blocks),
    "rejected": ("What was not taken, and why", rejections.blocks),
    "cost": ("What it cost, and when it pays", spending.blocks),
    "conditions": ("How it was measured", deployed.conditions),
}


def page(trees: Sequence[Tree], at: Path | None = None) -> str:
    """Return the HTML of one or several runs. The first run comes first, marked as the default if there are others.

    Args:
        at: Folder of the page, for its links to tables; default: the first run's.
    """
    here = at or trees[0].path
    parts = []
    for number, tree in enumerate(trees):
        try:
            parts.append(_part(tree, here, first=number == 0 and len(trees) > 1))
        except TableError:
            raise
        except ValueError as error:  # a table's content, such as a Program of another release
            raise ValueError(f"{tree.path}: {error}") from None
    return rendered(parts, LEAD)


def _part(tree: Tree, here: Path, *, first: bool) -> RunPart:
    models = ", ".join(tree.models) or "no model"
    about = (
        f"{tree.path.as_posix()}: problems {', '.join(tree.problems) or 'none'}; trained {models}. {LINKS}"
    )
    return RunPart(
        name=tree.name,
        label=f"Run {tree.name}" + (" (default)" if first else ""),
        about=about,
        folder=Path(os.path.relpath(tree.path, here)).as_posix(),
        cards=headline.cards_of(tree),
        notes=deployed.notes(tree),
        sections=tuple(section for name in TITLES if (section := _section(tree, name)).blocks),
    )


def _section(tree: Tree, name: str) -> PageSection:
    title, build = TITLES[name]
    anchor = f"{tree.name}-{name}"
    return PageSection(anchor=anchor, title=title, blocks=tuple(build(tree)), folded=name not in OPEN)
