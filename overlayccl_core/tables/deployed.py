"""The choices, their replacements and their figures, by the launches after the choice.

`deployed`: one row a Case and direction; except for `use`, `instead` and `in_file`, a row is about the chosen
Program. `splits`: one row a model, count of microbatches and arm. Launches: `confirmed`, `confirmed_steps`.
"""

from enum import StrEnum

import polars as pl

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.tables.candidate_columns import (
    CANDIDATE_KEY,
    CHOSEN_AS,
    NUMERICS,
    PROBLEM,
    ratio,
    us,
)
from overlayccl_core.tables.table import Column, Table
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


_DISTURBED = Column(
    name="disturbed",
    dtype=pl.Boolean(),
    nullable=True,
    doc="others took CPU time in most of the launches; null: there are none",
)

DEPLOYED = Table(
    name="deployed",
    row="one Case and direction",
    folder="",
    rule="deploy",
    version=5,
    columns=(
        PROBLEM,
        *CANDIDATE_KEY,
        Column(
            name="way",
            dtype=pl.String(),
            doc="`candidate` in words: of a find the known way it begins at and its rules, else its name",
        ),
        CHOSEN_AS,
        NUMERICS,
        Column(
            name="trained_in", dtype=pl.String(), nullable=True, doc="`nano m8, ...`; null: no model has it"
        ),
        Column(
            name="use",
            dtype=pl.String(),
            values=tuple(Use),
            doc="found, known: the module in deploy/, from a search or from people; framework: its own arm",
        ),
        Column(
            name="instead",
            dtype=pl.String(),
            nullable=True,
            doc="the arm in place of `candidate`, if that is slower beyond noise; null: it stands",
        ),
        Column(
            name="in_file",
            dtype=pl.String(),
            nullable=True,
            doc="Program of the module in deploy/: `candidate`, or that of `instead`; null: no file has the Case",
        ),
        us("predicted_us", "of `candidate`; null: no price"),
        us(
            "predicted_pair_us",
            "of forward and backward as chosen; a direction without communication costs nothing",
        ),
        us("measured_us", "of the chosen file, timed alone; null: a model has the Case"),
        *ratio("speedup", "developer's time over that file's; null ends: too few rounds"),
        *ratio("gain", "time of best_other over that file's"),
        Column(
            name="best_other",
            dtype=pl.String(),
            nullable=True,
            doc="the fastest arm that needs no search; null: that is `candidate`",
        ),
        *ratio("of_module", "time of the module of the same Program over that file's"),
        Column(name="launches", dtype=pl.Int64(), doc="in which `candidate` was timed alone"),
        Column(
            name="regret",
            dtype=pl.Float64(),
            nullable=True,
            doc="its bench time over the least of all measured ones that are not lossy, minus 1",
        ),
        Column(
            name="model_regret",
            dtype=pl.Float64(),
            nullable=True,
            doc="the same of the model's first choice among those",
        ),
        Column(name="reason", dtype=pl.String(), doc="why `candidate` was chosen, in a sentence"),
        _DISTURBED,
        FINGERPRINT_OR_NULL,
    ),
)

SPLITS = Table(
    name="splits",
    row="one arm of one model at one count of microbatches",
    folder="",
    rule="deploy",
    version=4,
    columns=(
        Column(name="model", dtype=pl.String(), doc="a file in config/models"),
        Column(
            name="microbatches", dtype=pl.Int64(), doc="into which the same batch is split; 1: not at all"
        ),
        Column(
            name="arm",
            dtype=pl.String(),
            doc=f"{', '.join(ArmName)}, only_<problem>, or one of the framework's own (docs/training.md)",
        ),
        Column(
            name="ran_as",
            dtype=pl.String(),
            doc="the plainest arm with the same Programs. Others have its figures; those of `deployed` are its own",
        ),
        Column(
            name="part", dtype=pl.String(), values=tuple(Part), doc="what it is to the headline of its model"
        ),
        Column(name="needs_search", dtype=pl.Boolean(), doc="false: people write it"),
        us("step_us", "median over launches; null: it failed"),
        Column(
            name="peak_memory_bytes",
            dtype=pl.Int64(),
            unit="bytes",
            nullable=True,
            doc="most bytes of tensors in a step on a rank; null: not known",
        ),
        *ratio("slower", "its step over the step of part `deployed` (2: the deployed is twice as fast)"),
        Column(name="launches", dtype=pl.Int64(), doc="that timed it"),
        _DISTURBED,
        FINGERPRINT_OR_NULL,
    ),
    minimum_rows=0,
)
