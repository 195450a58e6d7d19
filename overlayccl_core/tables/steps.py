"""Training steps, and the module that ran at every site of every arm, by its own stamp.

`steps`: one row per (model, microbatches, arm, purpose, seed, launch). Arms of one (model, microbatches, purpose,
seed, launch) are interleaved step by step, so their steps_us are paired by index.
"""

from dataclasses import replace

import polars as pl

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import OF_AN_ARM
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM
from overlayccl_core.tables.table import Column, Table, flag, integer, number, numbers, text
from overlayccl_core.tables.timing_columns import FINGERPRINT, OF_A_LAUNCH

STEPS = Table(
    name="steps",
    row="one launch of one arm, at one count of microbatches, for one purpose and seed",
    folder="train/<model>/",
    rule="train",
    version=7,
    columns=(
        text("model", doc="a file in config/models"),
        integer("microbatches", doc="into which a batch is split"),
        text(
            "arm",
            doc=f"{', '.join(ArmName)}, only_<problem>, or one of the framework's own (docs/training.md)",
        ),
        text(
            "purpose",
            values=tuple(Purpose),
            doc="quiet: the same step with local work in place of every collective; waited: with each collective "
            "waited for where it starts; idle: with the values of a step before in place of the model's work",
        ),
        integer("seed", doc="of parameters and batches"),
        integer("launch", doc="which start of the ranks; ratios hold within one only"),
        numbers("cold_us", doc="first steps, slowest rank"),
        numbers("steps_us", doc="slowest rank, optimizer inside"),
        Column(
            name="losses",
            dtype=pl.List(pl.List(pl.Float64())),
            doc="of every step, cold ones included, on each rank with a loss",
        ),
        number(
            "validation_loss", nullable=True, doc="on held-out text after the last step; null: not computed"
        ),
        number(
            "gradient_rel_error",
            nullable=True,
            doc="worst parameter at step 0 against the unsharded model; null: as those below",
        ),
        integer(
            "matmuls",
            nullable=True,
            doc="matrix products of a step on the rank with most; null: the arm was inspected in another launch",
        ),
        text("matmul_digest", nullable=True, doc="of the shapes of the products of every rank"),
        integer(
            "collectives", nullable=True, doc="library calls of a step on the rank with most, as counted"
        ),
        integer(
            "peak_memory_bytes",
            nullable=True,
            doc="most bytes of tensors in a step on one rank, all but the optimizer's (docs/training.md)",
        ),
        *OF_A_LAUNCH,
        text(
            "status",
            values=OF_AN_ARM,
            doc="of the arm in this launch; if not `trained`, it has no steps, and is in no later launch",
        ),
        text("message", doc="what happened and where its evidence is; empty: trained"),
        FINGERPRINT,
    ),
)
STAMPS = Table(
    name="stamps",
    row="one site of one arm at one count of microbatches",
    folder="train/<model>/",
    rule="train",
    version=7,
    columns=(
        text("model", doc="a file in config/models"),
        integer("microbatches", doc="into which a batch is split"),
        text("arm", doc="as in `steps`"),
        text("ran_as", doc="the plainest arm with the same modules, trained in its place"),
        text("site", doc="of the model's step"),
        PROBLEM,
        CASE,
        DIRECTION,
        text("candidate", doc="what ran there"),
        text("program", doc="digest of the Program that ran"),
        flag("overlaps", doc="whether a call of it can be in flight while the model computes"),
        text("library", doc="of collectives"),
        text("library_version", doc="as it tells itself"),
        integer("calls", doc="library calls per step"),
    ),
)
# The same tables for the launches after the choice, of all models.
CONFIRMED_STEPS, CONFIRMED_STAMPS = (
    replace(
        table,
        name=f"confirmed_{table.name}",
        row=f"as `{table.name}`, of all models",
        folder="",
        rule="confirm",
        minimum_rows=0,
    )
    for table in (STEPS, STAMPS)
)
