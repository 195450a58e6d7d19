"""Each planted mistake in a rewrite rule is caught by the campaign."""

import pytest

from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.apply import rule_names
from overlayccl_core.rewrites.rule import RuleNumerics
from tests.rewrites.campaign import Wrong, run
from tests.rewrites.mutants import MUTANTS, Mutant

BETTER = {RuleNumerics.LOSSY: RuleNumerics.REORDERED, RuleNumerics.REORDERED: RuleNumerics.SAME}


def caught(rule: str) -> str:
    """The first fault that the campaign finds."""
    with pytest.raises(Wrong) as wrong:
        run(rule)
    return str(wrong.value)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_dropped_side_condition_is_caught(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mutant.plant(monkeypatch)
    catch = caught(mutant.rule)
    with capsys.disabled():
        print(f"\n{mutant.name}: {catch}")


@pytest.mark.parametrize("name", [name for name in rule_names() if rules_.rule(name).NUMERICS in BETTER])
def test_a_rule_that_claims_to_round_less_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those of the best class, the same terms in the same order, below which there is nothing to claim."""
    rule = rules_.rule(name)
    monkeypatch.setattr(rule, "NUMERICS", BETTER[rule.NUMERICS])
    assert "declared" in caught(name)


def test_there_is_a_mutant_of_every_rule() -> None:
    assert {mutant.rule for mutant in MUTANTS} == set(rule_names())
