"""Each rule gives what rows.txt says, and each planted mistake of mutants.txt breaks a row."""

from itertools import groupby
from operator import attrgetter

import pytest

from overlayccl_core.rewrites.apply import rule_names
from overlayccl_core.rewrites.rule import RuleNumerics, rule
from tests.rewrites.mutants import MUTANTS, Mutant
from tests.rewrites.rows import Row, rows

ROWS = tuple(rows())
OF_RULE = {name: tuple(some) for name, some in groupby(ROWS, attrgetter("rule"))}
BETTER = {RuleNumerics.LOSSY: RuleNumerics.REORDERED, RuleNumerics.REORDERED: RuleNumerics.SAME}


def broken(name: str) -> bool:
    """Whether some row of a rule is not as it says; a mistake may also end in any error."""
    for row in OF_RULE[name]:
        try:
            row.check()
        except (Exception, pytest.fail.Exception):
            return True
    return False


def test_every_rule_has_its_rows_in_one_place_and_planted_mistakes() -> None:
    assert sorted(OF_RULE) == sorted({mutant.rule for mutant in MUTANTS}) == list(rule_names())
    assert len(ROWS) == sum(map(len, OF_RULE.values()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.rule}: {row.before}")
def test_a_row(row: Row) -> None:
    row.check()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_dropped_side_condition_breaks_a_row(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    assert broken(mutant.rule)


@pytest.mark.parametrize("name", [name for name in rule_names() if rule(name).NUMERICS in BETTER])
def test_a_rule_that_claims_to_round_less_breaks_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those of the best class, the same terms in the same order, below which there is nothing to claim."""
    monkeypatch.setattr(rule(name), "NUMERICS", BETTER[rule(name).NUMERICS])
    assert broken(name)
