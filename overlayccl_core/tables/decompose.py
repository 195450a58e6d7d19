"""Tables of the target `decompose`: the gain of what is deployed over the developer's calls, split into factors.

`part_arms`: the developer's Programs with some of the factors, by which the deployed ones differ from them.
`part_steps`, `part_stamps`: their training steps, all in the same launches. `parts`: what each factor gives.
"""

from dataclasses import replace
from enum import StrEnum

from overlayccl_core.measuring.effects import FactorEffect
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, NUMERICS, PROBLEM, PROGRAM_JSON, ratio
from overlayccl_core.tables.steps import STAMPS, STEPS
from overlayccl_core.tables.table import Table, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT

_MODEL = text("model", doc="a file in config/models")
_FACTORS = "in the order of docs/training.md, joined by `, `"


class PartRole(StrEnum):
    """What an arm is to a model's decomposition."""

    DEVELOPER = "developer"  # the developer's Programs at their fastest count of microbatches
    BETWEEN = "between"
    DEPLOYED = "deployed"  # all factors: the Programs of the deployed files


PART_ARMS = Table(
    name="part_arms",
    row="one part of the factors of a model at one Case and direction",
    folder="decompose/<model>/",
    rule="find_parts",
    version=1,
    columns=(
        _MODEL,
        text("factors", doc=f"that differ from the developer's, {_FACTORS}; empty: none"),
        text("role", values=tuple(PartRole), doc="all, none or some of them"),
        integer("microbatches", doc="into which a batch is split"),
        text("arm", doc="what it is trained as: developer, or with_<factors>"),
        PROBLEM,
        *CANDIDATE_KEY[:2],
        replace(CANDIDATE_KEY[2], doc="the steps from the developer's Program, in words"),
        text("left_out", doc="steps of these factors that do nothing without the others, and why"),
        integer("steps", doc="from the developer's Program"),
        integer(
            "lines",
            nullable=True,
            doc="of the known way that is deployed at the place, or that a find begins at; null: there is none",
        ),
        NUMERICS,
        text("program", doc="digest"),
        PROGRAM_JSON,
    ),
    minimum_rows=0,
)
PART_STEPS, PART_STAMPS = (
    replace(
        table,
        name=f"part_{table.name}",
        row=f"as `{table.name}`: one part of the factors of a model",
        folder="decompose/<model>/",
        rule="time_parts",
        minimum_rows=0,
    )
    for table in (STEPS, STAMPS)
)
PARTS = Table(
    name="parts",
    row="one effect of one model",
    folder="decompose/",
    rule="weigh_parts",
    version=1,
    columns=(
        _MODEL,
        text(
            "effect",
            values=tuple(FactorEffect),
            doc="whole: of all factors; part: of one, the mean over all orders of adding it, so that parts add up "
            "to the whole; alone: of one on the developer's calls; together: of several beyond what fewer of them "
            "give, so that alone and together add up, too",
        ),
        text("factors", doc=_FACTORS),
        *ratio("ratio", doc="of step times: how many times as fast; a geometric mean over launches"),
        number(
            "share",
            nullable=True,
            doc="its logarithm over that of the whole; null: the interval of the whole has 1 in it",
        ),
        integer("launches", doc="that timed all of it"),
        FINGERPRINT,
    ),
    minimum_rows=0,
)
