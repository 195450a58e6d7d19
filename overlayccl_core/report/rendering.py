"""A page of HTML: parts with sections, self-contained, everything escaped."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath

import jinja2
from markupsafe import Markup, escape

from overlayccl_core.program.kinds import printable
from overlayccl_core.report.blocks import Block, Cards, Section, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a page says of one run. label: the run's name for people; about: where its figures are from.

    folder: the run's, from that of the page: links to files begin with it.
    """

    name: str
    label: str
    about: str
    cards: Cards
    notes: tuple[Block, ...]
    sections: tuple[Section, ...]
    folder: str = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A table of a run, the rule that wrote it, and its files: (name, address from the page)."""

    table: str
    rule: str
    files: tuple[tuple[str, str], ...]


def origins(sources: Iterable[Source], folder: str) -> list[Origin]:
    """Sources by table and rule. folder: the run's, from that of the page."""
    return [
        Origin(
            table=table,
            rule=rule,
            files=tuple((one.file, (PurePosixPath(folder) / one.file).as_posix()) for one in those),
        )
        for (table, rule), those in groupby(sorted(sources), key=lambda one: (one.table, one.rule))
    ]


def rendered(parts: Sequence[Part], lead: str) -> str:
    """The HTML. lead: one sentence that says what the page is about."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "origins": origins}
    style = (Path(__file__).parent / "style.css").read_text()
    template = environment.get_template("page.html.jinja")
    return printable(template.render(trees=parts, lead=lead, style=Markup(style)))


def breakable(text: str) -> Markup:
    """Text whose long names may be broken where they are joined: after `_`, `/`, `:`, `,` and a `-` inside a name.

    A browser itself breaks no hyphen before a digit, as in `n4-64KiB`.
    """
    return Markup(re.sub(r"([_/:]|(?<=\w)-(?=\w)|,(?!\d{3}))(?=\S)", r"\1<wbr>", str(escape(text))))
