"""The choices, their replacements and their figures, by the launches after the choice.

`deployed`: one row a Case and direction; except for `use`, `instead` and `in_file`, a row is about the chosen
Program. `splits`: one row a model, count of microbatches and arm. Launches: `confirmed`, `confirmed_steps`.
"""

from enum import StrEnum

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.tables.candidate_columns import CANDIDATE_KEY, CHOSEN_AS, NUMERICS, PROBLEM, ratio
from overlayccl_core.tables.table import Table, flag, integer, number, text
from overlayccl_core.tables.timing_columns import FINGERPRINT_OR_NULL


class Part(StrEnum):
    """Role of an arm in the headline of its model."""

    DEPLOYED = "deployed"  # the chosen file, at the count of microbatches chosen by training
    RIVAL = "rival"  # the fastest without a search, at any count, with no more memory
    INSTEAD = "instead"  # a rival in the chosen arm's place, faster beyond noise
    BESIDE = "beside"


class Use(StrEnum):
    """What to use at a Case."""

    FOUND = "found"  # the module in deploy/: a find of a search
    KNOWN = "known"  # the module in deploy/: a known way
    FRAMEWORK = "framework"  # the framework's own: no file in deploy/ has the Case


_DISTURBED = flag(
    "disturbed", nullable=True, doc="others took CPU time in most of the launches; null: there are none"
)

DEPLOYED = Table(
    name="deployed",
    row="one Case and direction",
    rule="deploy",
    version=5,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY,
        text(
            "way",
            doc="`candidate` in words: of a find the known way it begins at and its rules, else its name",
        ),
        CHOSEN_AS,
        NUMERICS,
        text("trained_in", nullable=True, doc="`nano m8, ...`; null: no model has it"),
        text(
            "use",
            values=tuple(Use),
            doc="found, known: the module in deploy/, from a search or from people; framework: its own arm",
        ),
        text(
            "instead",
            nullable=True,
            doc="the arm in place of `candidate`, if that is slower beyond noise; null: it stands",
        ),
        text(
            "in_file",
            nullable=True,
            doc="Program of the module in deploy/: `candidate`, or that of `instead`; null: no file has the Case",
        ),
        number("predicted_us", nullable=True, doc="of `candidate`; null: no price"),
        number(
            "predicted_pair_us",
            nullable=True,
            doc="of forward and backward as chosen; a direction without communication costs nothing",
        ),
        number(
            "measured_us", nullable=True, doc="of the chosen file, timed alone; null: a model has the Case"
        ),
        *ratio("speedup", doc="developer's time over that file's; null ends: too few rounds"),
        *ratio("gain", doc="time of best_other over that file's"),
        text(
            "best_other", nullable=True, doc="the fastest arm that needs no search; null: that is `candidate`"
        ),
        *ratio("of_module", doc="time of the module of the same Program over that file's"),
        integer("launches", doc="in which `candidate` was timed alone"),
        number(
            "regret",
            nullable=True,
            doc="its bench time over the least of all measured ones that are not lossy, minus 1",
        ),
        number("model_regret", nullable=True, doc="the same of the model's first choice among those"),
        text("reason", doc="why `candidate` was chosen, in a sentence"),
        _DISTURBED,
        FINGERPRINT_OR_NULL,
    ),
)

SPLITS = Table(
    name="splits",
    row="one arm of one model at one count of microbatches",
    rule="deploy",
    version=5,
    columns=(
        text("model", doc="a file in config/models"),
        integer("microbatches", doc="into which the same batch is split; 1: not at all"),
        text(
            "arm",
            doc=f"{', '.join(ArmName)}, only_<problem>, or one of the framework's own (docs/training.md)",
        ),
        text(
            "ran_as",
            doc="the plainest arm with the same Programs. Others have its figures; those of `deployed` are its own",
        ),
        text("part", values=tuple(Part), doc="what it is to the headline of its model"),
        flag("needs_search", doc="false: people write it"),
        number("step_us", nullable=True, doc="median over launches; null: it failed"),
        integer(
            "peak_memory_bytes",
            nullable=True,
            doc="most bytes of tensors in a step on a rank; null: not known",
        ),
        *ratio(
            "deployed_speedup",
            doc="of part `deployed` over this: its step over that part's (2: the deployed is twice as fast)",
        ),
        integer("launches", doc="that timed it"),
        _DISTURBED,
        FINGERPRINT_OR_NULL,
    ),
    minimum_rows=0,
)
