"""Figures as inline SVG: one drawing for a screen and one for a phone, in the page's colours, with hover texts.

A chart is built with placeholder colours. In the SVG they become the page's CSS variables, so a figure follows
light and dark mode. Text stays text, and every mark's description becomes its `<title>`.
"""

import hashlib
import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode

from overlayccl_core.report.blocks import Figure

WIDE, NARROW = 880, 340  # px: a figure's box on a screen and on a phone; text keeps its size
LAYOUT_PX, DRAWN_PX = 13, 12  # the layout has room for the widest sans-serif font of a reader

Rows = Sequence[Mapping[str, Any]]


class Ink(StrEnum):
    """Roles of colours. The values are placeholders: `style.css` gives the colours of both modes."""

    TEXT = "#010101"
    MUTED = "#020202"
    GRID = "#030303"
    BLUE = "#050505"
    ORANGE = "#060606"
    GREEN = "#070707"
    PURPLE = "#080808"
    SKY = "#090909"
    YELLOW = "#0a0a0a"
    GREY = "#0b0b0b"


def named(name: str) -> Any:
    """Name the rows given to `figure`: altair would copy data in a chart again and again."""
    return alt.NamedData(name=name)


def by_look(channel: Any, column: str, look: Mapping[str, Any], **more: Any) -> Any:
    """Return alt.Color, alt.Shape or alt.StrokeDash of a column. look: value -> its colour, shape or dash."""
    scale = alt.Scale(domain=list(look), range=list(look.values()))
    return channel(f"{column}:N", title=None, scale=scale, **more)


def figure(title: str, caption: str, build: Callable[[int], Any], data: Mapping[str, Rows]) -> Figure:
    """Draw `build(width)`, a chart of `named` data; its width, axes included, is set here, unless it has panels."""
    with debug_mode(False):  # no schema validation: it takes longer than drawing
        wide, narrow = (_svg(build(width), width, title, data) for width in (WIDE, NARROW))
    return Figure(title=title, caption=caption, wide=wide, narrow=narrow)


def is_narrow(width: int) -> bool:
    """Return whether the figure is a phone's: fewer ticks, fewer columns."""
    return width <= NARROW


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: 1, 2, 5, 10, ... of a short range, powers of ten of a long one."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 3, 5, 7) if high <= 10 * low else (1, 2, 5) if len(decades) <= 4 else (1,)
    return [
        digit * 10.0**decade for decade in decades for digit in digits if low <= digit * 10.0**decade <= high
    ]


def _look(width: int) -> dict[str, Any]:
    """Return Vega-Lite's configuration for all figures."""
    text, quiet, line = Ink.TEXT.value, Ink.MUTED.value, Ink.GRID.value
    return {
        "background": "transparent",
        "font": "system-ui, sans-serif",
        "padding": 4,
        "view": {"strokeWidth": 0},
        "axis": {
            "labelColor": text,
            "titleColor": quiet,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFontSize": LAYOUT_PX,
            "titleFontSize": LAYOUT_PX,
            "titleFontWeight": "normal",
            "labelLimit": 220,
            "tickCount": 5 if is_narrow(width) else 8,
        },
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "columns": 2 if is_narrow(width) else 3,  # of the longest labels
            "labelColor": text,
            "labelFontSize": LAYOUT_PX,
            "labelLimit": 220,
            "symbolStrokeWidth": 2,
        },
        "header": {"labelColor": text, "labelFontSize": LAYOUT_PX, "title": None},
        "text": {"fontSize": LAYOUT_PX},
    }


def _svg(chart: Any, width: int, title: str, data: Mapping[str, Rows]) -> str:
    spec = {**chart.to_dict(validate=False), "datasets": data, "config": _look(width)}
    if "facet" not in spec:  # panels set their own widths
        spec |= {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    version = ".".join(alt.SCHEMA_VERSION[1:].split(".")[:2])
    text = json.dumps(spec)
    name = "f" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return adopt(vl_convert.vegalite_to_svg(text, vl_version=version), title, name)


def adopt(text: str, title: str, name: str) -> str:
    """Fit an SVG document into a page: scalable, labelled, coloured by the page; its ids start with `name`."""
    head = re.search(r"<svg[^>]*>", text)
    box = re.search(r'viewBox="([^"]+)"', text)
    if head is None or box is None:
        raise ValueError(f"figure {title!r}: the renderer gave no SVG with a viewBox (got {text[:80]!r})")
    body = text[head.end() :]
    for number, old in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]+)"', body))):
        body = body.replace(f'id="{old}"', f'id="{name}-{number}"')
        body = body.replace(f"url(#{old})", f"url(#{name}-{number})")
    body = re.sub(
        r'(<(path|text|rect)\b[^>]*aria-label="([^"]*)"[^>]*?)(?:/>|></\2>)',
        r"\1><title>\3</title></\2>",
        body,
    )
    body = body.replace(f'font-size="{LAYOUT_PX}px"', f'font-size="{DRAWN_PX}px"')
    for ink in Ink:
        body = body.replace(f'"{ink.value}"', f'"var(--{ink.name.lower()})"')
    width = float(box[1].split()[2])
    label = html.escape(title)
    return f'<svg viewBox="{box[1]}" style="max-width:{width:g}px" role="img" aria-label="{label}">{body}'
