"""A figure in the page: it scales, takes the page's colours, tells its values, and shares no name with another."""

import re

import altair as alt
import pytest

from overlayccl_core.report.charts import NARROW, WIDE, Ink, adopt, figure, log_ticks, named
from overlayccl_core.report.prediction import mark_of


def drawn(title: str, ms: float) -> str:
    rows = [{"arm": "a", "ms": ms, "text": f"{ms} ms"}]

    def build(width: int) -> alt.Chart:
        marks = alt.Chart(named("rows")).mark_point(clip=True, color=Ink.BLUE.value)
        return marks.encode(x="ms:Q", y="arm:N", description="text:N")

    drawing = figure(title, "", build, {"rows": rows})
    assert f'viewBox="0 0 {WIDE} ' in drawing.wide and f'viewBox="0 0 {NARROW} ' in drawing.narrow
    return drawing.wide


def test_a_figure_scales_and_has_the_pages_colours() -> None:
    text = drawn("one", 3)
    head = re.match("<svg[^>]*>", text)
    assert head is not None and 'width="' not in head[0] and 'height="' not in head[0]
    assert "var(--blue)" in text and "var(--text)" in text
    assert not [ink for ink in Ink if ink.value in text]


def test_a_mark_tells_its_value_on_hover() -> None:
    assert "<title>3 ms</title>" in drawn("one", 3)


def test_twenty_problems_differ_by_colour_or_shape() -> None:
    assert len({mark_of(number) for number in range(20)}) == 20


def test_two_figures_have_no_id_in_common() -> None:
    one, other = (set(re.findall(r'\bid="([^"]+)"', drawn("t", ms))) for ms in (3, 4))
    assert one and other and not one & other
    text = drawn("t", 3)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(re.findall(r'\bid="([^"]+)"', text))


def test_a_title_cannot_leave_its_attribute() -> None:
    assert 'aria-label="&lt;b&gt; &amp; &quot;c&quot;"' in adopt(
        '<svg viewBox="0 0 1 1"></svg>', '<b> & "c"', "f"
    )


def test_what_is_no_svg_is_refused() -> None:
    with pytest.raises(ValueError, match="no SVG with a viewBox"):
        adopt("nothing", "t", "f")


def test_log_ticks_are_few_and_inside() -> None:
    assert log_ticks(0.9, 25) == pytest.approx([1, 2, 5, 10, 20])
    assert log_ticks(1.5, 14) == pytest.approx([2, 3, 5, 7, 10])
    assert log_ticks(1e-7, 1e-2) == pytest.approx([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
