"""Choices of another deployment at the Cases of this one: what was chosen there, what became of it, its worth.

`source_choices` and `source_theta` are no outputs of a rule: the rest of another tree is not this run's to make, so
they are copied when the run begins (`evidence.redeployment.keep`).
"""

from dataclasses import replace
from enum import StrEnum

from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM, ratio
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.price_ablations import CANDIDATES_JUDGED
from overlayccl_core.tables.table import Table, number, text
from overlayccl_core.tables.theta import THETA
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL

TARGET = "redeploy"


class Replayed(StrEnum):
    """What became of a recipe at a Case of this deployment."""

    PROVEN = "proven"
    NO_CASE = "no_case"
    NOT_REPLAYED = "not_replayed"
    NOT_LEGAL = "not_legal"
    NOT_PROVEN = "not_proven"


_TREE = text("tree", doc="below results/: whose choice it is; this run's own is among them, to compare with")
_WAY = text("way", nullable=True, doc="the recipe in words; null: nothing was chosen there")
_RECIPE = text("recipe", nullable=True, doc="JSON; null: nothing was chosen there")

SOURCE_CHOICES = Table(
    name="source_choices",
    row="one choice of one tree",
    folder=f"{TARGET}/",
    rule="snakemake redeploy --config source=TREE",
    version=1,
    columns=(
        _TREE,
        *CASES.columns,
        DIRECTION,
        text("candidate", doc="its name there"),
        replace(_RECIPE, nullable=False, doc="JSON"),
        text("source", nullable=True, doc="the source that the recipe begins with; null: a known way"),
    ),
)

SOURCE_THETA = replace(
    THETA,
    name="source_theta",
    row="one coefficient of that tree's theta",
    folder=f"{TARGET}/",
    rule=SOURCE_CHOICES.rule,
)

SOURCE_PRICES = Table(
    name="source_prices",
    row="the candidates of this target's benches, priced by one tree's theta",
    folder=f"{TARGET}/",
    rule="regret",
    version=1,
    minimum_rows=0,
    columns=(
        text(
            "tree",
            doc="below results/: whose theta. Of another deployment a call that its probes did not reach is priced "
            "as the same call on the other tier",
        ),
        *CANDIDATES_JUDGED,
    ),
)

REDEPLOYED = Table(
    name="redeployed",
    row="one tree's choice at one Case and direction of this deployment",
    folder=f"{TARGET}/problems/<problem>/",
    rule="redeployed",
    version=1,
    columns=(
        _TREE,
        CASE,
        DIRECTION,
        text("source_case", nullable=True, doc="Case of that tree with the same sizes; null: there is none"),
        text("source_candidate", nullable=True, doc="the choice's name there; null: nothing was chosen"),
        _WAY,
        _RECIPE,
        text(
            "outcome",
            values=tuple(Replayed),
            doc="proven: it may be chosen here; no_case: nothing was chosen there at these sizes; not_replayed: a "
            "step of the recipe does nothing here; not_legal: the library or the memory forbids it",
        ),
        text("message", doc="at which step of the recipe it ended, and why; empty: proven"),
        text("candidate", nullable=True, doc="its name here; null: there is no Program"),
        text("program", nullable=True, doc="digest; null: there is no Program"),
        text("value_digest", nullable=True, doc="null: there is no Program"),
        number("predicted_us", nullable=True, doc="null: no price"),
    ),
)

REGRET = Table(
    name="regret",
    row="one Case and direction",
    folder=f"{TARGET}/",
    rule="regret",
    version=1,
    minimum_rows=0,
    columns=(
        PROBLEM,
        CASE,
        DIRECTION,
        _TREE,
        text("candidate", nullable=True, doc="of that tree's choice; null: it has no time here"),
        _WAY,
        text("own", nullable=True, doc="candidate that this run chose; null: nothing yet"),
        number("us", nullable=True, doc="of that tree's choice, in the bench of this target; null: no time"),
        number("own_us", nullable=True, doc="of this run's choice, in the same rounds; null: no time"),
        *ratio("regret", doc="us over own_us, of paired rounds (2: that tree's choice takes twice as long)"),
        *ratio("speedup", doc="developer's time over that tree's choice's"),
        text("best_known", nullable=True, doc="the known way that was fastest in this bench; null: none was"),
        *ratio("over_known", doc="that known way's time over that tree's choice's"),
        text("message", doc="why that tree's choice has no time here; empty: it has"),
        FINGERPRINT_OR_NULL,
    ),
)
