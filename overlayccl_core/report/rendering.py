"""A page of HTML: parts with sections, self-contained, everything escaped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from overlayccl_core.program.kinds import printable
from overlayccl_core.report.blocks import Cards, Section, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a page says of one run. label: the run's name for people; about: where its figures are from."""

    name: str
    label: str
    about: str
    cards: Cards
    notes: tuple[Text, ...]
    sections: tuple[Section, ...]


def rendered(parts: Sequence[Part], lead: str) -> str:
    """The HTML. lead: one sentence that says what the page is about."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    style = (Path(__file__).parent / "style.css").read_text()
    template = environment.get_template("page.html.jinja")
    return printable(template.render(trees=parts, lead=lead, style=Markup(style)))


def breakable(text: str) -> Markup:
    """Text whose long names may be broken where they are joined: after `_`, `/`, `:`, `,` and a `-` inside a name.

    A browser itself breaks no hyphen before a digit, as in `n4-64KiB`.
    """
    return Markup(re.sub(r"([_/:]|(?<=\w)-(?=\w)|,(?!\d{3}))(?=\S)", r"\1<wbr>", str(escape(text))))
