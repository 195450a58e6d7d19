"""What rules make of small Programs of one output: table.txt."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rewrites.rules.tried import CROSSED, PAIRS, refusal, rewritten, traced

TABLE = Path(__file__).with_name("table.txt").read_text()


def rows() -> Iterator[tuple[str, str, str]]:
    """(rule with its knob and class, a value with its size, what becomes of it)."""
    for block in re.sub(r"^#.*\n", "", TABLE, flags=re.MULTILINE).strip().split("\n\n"):
        rule, *lines = block.split("\n  ")
        for line in lines:
            before, after = line.split(" => ")
            yield rule, before, after


@pytest.mark.parametrize(("rule", "before", "after"), tuple(rows()))
def test_a_rule_gives_what_the_table_says(rule: str, before: str, after: str) -> None:
    words, _, site_class = rule.partition(" @")
    name, _, knob = words.partition(" ")
    value, size = before.split(" -> ")
    body = f'io.write("y", {value})'.replace("PAIRS", str(PAIRS)).replace("CROSSED", str(CROSSED))
    program = traced(body, int(size), linear='"max"' not in value)
    if after == "refused":
        assert "side conditions" in refusal(name, program, knob, site_class)
    else:
        made = rewritten(name, program, knob, site_class).collectives
        assert (", ".join(f"{x.kind} {x.operands[0].size}" for x in made) or "nothing") == after
