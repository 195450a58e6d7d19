"""A page of HTML: parts with sections, self-contained, everything escaped."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path, PurePosixPath

import jinja2
from markupsafe import Markup, escape

from overlayccl_core.program.kinds import printable
from overlayccl_core.report.blocks import Block, Cards, PageSection, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """The part of a page on one run."""

    name: str
    label: str  # the run's name for people
    about: str  # origin of the figures
    sections: tuple[PageSection, ...]
    cards: Cards = field(default_factory=lambda: Cards(cards=()))
    notes: tuple[Block, ...] = ()
    folder: str = "."  # the run's folder, relative to the page's: the beginning of links to files


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrigin:
    """A table of a run, the rule that wrote it, and its files: (name, address from the page)."""

    table: str
    rule: str
    files: tuple[tuple[str, str], ...]


def origins(sources: Iterable[Source], folder: str) -> list[TableOrigin]:
    """Group sources by table and rule. folder: the run's, relative to the page's."""
    return [
        TableOrigin(
            table=table,
            rule=rule,
            files=tuple((one.file, (PurePosixPath(folder) / one.file).as_posix()) for one in those),
        )
        for (table, rule), those in groupby(sorted(sources), key=lambda one: (one.table, one.rule))
    ]


def page_of(name: str, about: str, lead: str, section: PageSection) -> str:
    """Return the HTML of a page of one section, open. name: of the run; about: of RunPart; lead: of `rendered`."""
    part = RunPart(name=name, label=f"Run {name}", about=about, sections=(replace(section, folded=False),))
    return rendered([part], lead)


def rendered(parts: Sequence[RunPart], lead: str) -> str:
    """Return the HTML. lead: one sentence on the subject of the page."""
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
    """Allow line breaks at the joints of long names: after `_`, `/`, `:`, `,` and a `-` inside a name.

    A browser itself breaks no hyphen before a digit, as in `n4-64KiB`.
    """
    return Markup(re.sub(r"([_/:]|(?<=\w)-(?=\w)|,(?!\d{3}))(?=\S)", r"\1<wbr>", str(escape(text))))
