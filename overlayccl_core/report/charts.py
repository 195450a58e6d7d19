"""Figures as inline SVG: drawn once wide and once for a phone, in the page's own colours, with hover texts.

A chart is built with colours that stand for roles; in the SVG they become the page's CSS variables, so that a
figure follows light and dark. Text stays text, and every mark's description becomes its `<title>`.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import altair as alt
import vl_convert

WIDE, NARROW = 760, 350  # px: a figure's box on a screen and on a phone; texts are not scaled in either


class Ink(StrEnum):
    """Roles of colours. The values are no colours to look at: `style.css` gives both sets."""

    TEXT = "#010101"
    MUTED = "#020202"
    GRID = "#030303"
    PAPER = "#040404"
    BLUE = "#050505"
    ORANGE = "#060606"
    GREEN = "#070707"
    PURPLE = "#080808"
    SKY = "#090909"
    YELLOW = "#0a0a0a"
    GREY = "#0b0b0b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Two drawings of the same data. title: what it shows; caption: how to read it, with units."""

    title: str
    caption: str
    wide: str
    narrow: str
    kind: str = "figure"



def figure(title: str, caption: str, build: Callable[[int], Any]) -> Figure:
    """Draw `build(width)`, a chart that is `width` px wide with its axes."""
    return Figure(
        title=title,
        caption=caption,
        wide=_svg(build(WIDE), title),
        narrow=_svg(build(NARROW), title),
    )


def is_narrow(width: int) -> bool:
    """True for a phone's figure: fewer ticks, fewer columns."""
    return width <= NARROW


def styled(chart: Any, width: int | None) -> Any:
    """The look that all figures share; `width` None where the panels of a figure have widths of their own."""
    if width is not None:
        chart = chart.properties(width=width, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
    axis: dict[str, Any] = {
        "labelColor": Ink.TEXT.value,
        "titleColor": Ink.MUTED.value,
        "gridColor": Ink.GRID.value,
        "domainColor": Ink.GRID.value,
        "tickColor": Ink.GRID.value,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 220,
        "tickCount": 5 if width is None or is_narrow(width) else 8,
    }
    legend: dict[str, Any] = {
        "orient": "top",
        "direction": "horizontal",
        "columns": 2 if width is not None and is_narrow(width) else 4,
        "labelColor": Ink.TEXT.value,
        "titleColor": Ink.MUTED.value,
        "labelFontSize": 12,
        "symbolStrokeWidth": 2,
        "labelLimit": 260,
    }
    return (
        chart.configure(background="transparent", font="system-ui, sans-serif", padding=4)
        .configure_view(strokeWidth=0)
        .configure_axis(**axis)
        .configure_legend(**legend)
        .configure_header(labelColor=Ink.TEXT.value, labelFontSize=12, title=None)
        .configure_text(fontSize=12)
    )


def _svg(chart: Any, title: str) -> str:
    text = vl_convert.vegalite_to_svg(chart.to_json(), vl_version=".".join(alt.SCHEMA_VERSION[1:].split(".")[:2]))
    return adopt(text, title, "f" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest())


def adopt(text: str, title: str, name: str) -> str:
    """An SVG document as a part of a page: scalable, labelled, coloured by the page, its ids its own."""
    head = re.search(r"<svg[^>]*>", text)
    box = re.search(r'viewBox="([^"]+)"', text)
    if head is None or box is None:
        raise ValueError(f"figure {title!r}: the renderer gave no SVG with a viewBox (got {text[:80]!r})")
    body = text[head.end() :]
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'(<(path|text|rect)\b[^>]*aria-label="([^"]*)"[^>]*?)(?:/>|></\2>)', r"\1><title>\3</title></\2>", body)
    for ink in Ink:
        body = body.replace(f'"{ink.value}"', f'"var(--{ink.name.lower()})"')
    width = float(box[1].split()[2])
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return f'<svg viewBox="{box[1]}" style="max-width:{width:g}px" role="img" aria-label="{label}">{body}'
