"""The report: one self-contained HTML page of one or several runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from overlayccl_core.program.kinds import printable
from overlayccl_core.report import (
    costs,
    deployed,
    gain,
    headline,
    prediction,
    rejected,
    sketched,
    spent,
    training,
)
from overlayccl_core.report.blocks import Cards, Section, Text
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.rows import TableError

TITLES = {
    "worth": ("What it is worth", headline.blocks),
    "gain": ("Where the gain comes from", gain.blocks),
    "deployed": ("What is deployed", deployed.blocks),
    "model": ("Predicted and measured", prediction.blocks),
    "price": ("What the price is made of", costs.blocks),
    "training": ("Training, by which it was chosen", training.blocks),
    "sketched": ("What language models were asked", sketched.blocks),
    "rejected": ("What was not taken, and why", rejected.blocks),
    "cost": ("What it cost, and when it pays", spent.blocks),
    "conditions": ("How it was measured", deployed.conditions),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the page says of one run. label: the run's name for people; about: where its figures are from."""

    name: str
    label: str
    about: str
    cards: Cards
    notes: tuple[Text, ...]
    sections: tuple[Section, ...]


def page(trees: Sequence[Tree]) -> str:
    """The HTML. The first run comes first, and is called the default one where there are others."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    style = (Path(__file__).parent / "style.css").read_text()
    parts = []
    for number, tree in enumerate(trees):
        try:
            parts.append(_part(tree, first=number == 0 and len(trees) > 1))
        except TableError:
            raise
        except ValueError as error:  # what is in its tables, such as a Program of another release
            raise ValueError(f"{tree.path}: {error}") from None
    template = environment.get_template("page.html.jinja")
    return printable(template.render(trees=parts, style=Markup(style)))


def breakable(text: str) -> Markup:
    """Text whose long names may be broken where they are joined: after `_`, `/`, `:`, `,` and a `-` inside a name.

    A browser itself breaks no hyphen before a digit, as in `n4-64KiB`.
    """
    return Markup(re.sub(r"([_/:]|(?<=\w)-(?=\w)|,(?!\d{3}))(?=\S)", r"\1<wbr>", str(escape(text))))


def _part(tree: Tree, *, first: bool) -> Part:
    models = ", ".join(tree.models) or "no model"
    about = f"{tree.path.as_posix()}: problems {', '.join(tree.problems) or 'none'}; trained {models}."
    return Part(
        name=tree.name,
        label=f"Run {tree.name}" + (" (default)" if first else ""),
        about=about,
        cards=headline.cards_of(tree),
        notes=deployed.notes(tree),
        sections=tuple(
            Section(anchor=f"{tree.name}-{name}", title=title, blocks=tuple(blocks(tree)))
            for name, (title, blocks) in TITLES.items()
        ),
    )
