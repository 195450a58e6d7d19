"""Training steps, and the module that ran at every site of every arm, by its own stamp.

`steps`: one row per (model, microbatches, arm, purpose, seed, launch). Arms of one (model, microbatches, purpose,
seed, launch) are interleaved step by step, so their steps_us are paired by index.
"""

import polars as pl

from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.measuring.job_status import OF_AN_ARM
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.tables.candidate_columns import CASE, DIRECTION, PROBLEM
from overlayccl_core.tables.table import Column, Table
from overlayccl_core.tables.timing_columns import FINGERPRINT, OF_A_LAUNCH

_VERSION = 6
_STEPS = (
    Column(name="model", dtype=pl.String(), doc="a file in config/models"),
    Column(name="microbatches", dtype=pl.Int64(), doc="into which a batch is split"),
    Column(
        name="arm",
        dtype=pl.String(),
        doc=f"{', '.join(ArmName)}, only_<problem>, or one of the framework's own (docs/training.md)",
    ),
    Column(
        name="purpose",
        dtype=pl.String(),
        values=tuple(Purpose),
        doc="quiet: the same step with local work in place of every collective",
    ),
    Column(name="seed", dtype=pl.Int64(), doc="of parameters and batches"),
    Column(name="launch", dtype=pl.Int64(), doc="which start of the ranks; ratios hold within one only"),
    Column(name="cold_us", dtype=pl.List(pl.Float64()), unit="us", doc="first steps, slowest rank"),
    Column(name="steps_us", dtype=pl.List(pl.Float64()), unit="us", doc="slowest rank, optimizer inside"),
    Column(
        name="losses",
        dtype=pl.List(pl.List(pl.Float64())),
        doc="of every step, cold ones included, on each rank with a loss",
    ),
    Column(
        name="validation_loss",
        dtype=pl.Float64(),
        nullable=True,
        doc="on held-out text after the last step; null: not computed",
    ),
    Column(
        name="gradient_rel_error",
        dtype=pl.Float64(),
        nullable=True,
        doc="worst parameter at step 0 against the unsharded model; null: as those below",
    ),
    Column(
        name="matmuls",
        dtype=pl.Int64(),
        nullable=True,
        doc="matrix products of a step on the rank with most; null: the arm was inspected in another launch",
    ),
    Column(
        name="matmul_digest",
        dtype=pl.String(),
        nullable=True,
        doc="of the shapes of the products of every rank",
    ),
    Column(
        name="collectives",
        dtype=pl.Int64(),
        nullable=True,
        doc="library calls of a step on the rank with most, as counted",
    ),
    Column(
        name="peak_memory_bytes",
        dtype=pl.Int64(),
        unit="bytes",
        nullable=True,
        doc="most bytes of tensors in a step on one rank, all but the optimizer's (docs/training.md)",
    ),
    *OF_A_LAUNCH,
    Column(
        name="status",
        dtype=pl.String(),
        values=OF_AN_ARM,
        doc="of the arm in this launch; if not `trained`, it has no steps, and is in no later launch",
    ),
    Column(name="message", dtype=pl.String(), doc="what happened and where its evidence is; empty: trained"),
    FINGERPRINT,
)

_STAMPS = (
    Column(name="model", dtype=pl.String(), doc="a file in config/models"),
    Column(name="microbatches", dtype=pl.Int64(), doc="into which a batch is split"),
    Column(name="arm", dtype=pl.String(), doc="as in `steps`"),
    Column(
        name="ran_as",
        dtype=pl.String(),
        doc="the plainest arm with the same modules, trained in its place",
    ),
    Column(name="site", dtype=pl.String(), doc="of the model's step"),
    PROBLEM,
    CASE,
    DIRECTION,
    Column(name="candidate", dtype=pl.String(), doc="what ran there"),
    Column(name="program", dtype=pl.String(), doc="digest of the Program that ran"),
    Column(name="library", dtype=pl.String(), doc="of collectives"),
    Column(name="library_version", dtype=pl.String(), doc="as it tells itself"),
    Column(name="calls", dtype=pl.Int64(), doc="library calls per step"),
)

STEPS = Table(
    name="steps",
    row="one launch of one arm, at one count of microbatches, for one purpose and seed",
    folder="train/<model>/",
    rule="train",
    version=_VERSION,
    columns=_STEPS,
)
STAMPS = Table(
    name="stamps",
    row="one site of one arm at one count of microbatches",
    folder="train/<model>/",
    rule="train",
    version=_VERSION,
    columns=_STAMPS,
)
# The same tables for the launches after the choice, of all models.
CONFIRMED_STEPS = Table(
    name="confirmed_steps",
    row="as `steps`, of all models",
    folder="",
    rule="confirm",
    version=_VERSION,
    columns=_STEPS,
    minimum_rows=0,
)
CONFIRMED_STAMPS = Table(
    name="confirmed_stamps",
    row="as `stamps`, of all models",
    folder="",
    rule="confirm",
    version=_VERSION,
    columns=_STAMPS,
    minimum_rows=0,
)
