"""The collectives of somebody's training step: what was called, by which line, when, and made from which others."""

from enum import StrEnum

from overlayccl_core.tables.table import Table, flag, integer, integers, number, text, texts


class CaptureSource(StrEnum):
    """Where captured calls come from."""

    SCRIPT = "script"
    FAKE = "fake"
    PROFILER = "profiler"
    FLIGHT_RECORDER = "flight_recorder"


CAPTURED_CALLS = Table(
    name="captured_calls",
    row="one call of one recorded step on one rank",
    folder="",
    rule="overlayccl capture",
    version=1,
    columns=(
        text(
            "source",
            values=tuple(CaptureSource),
            doc="script: recorded in it; fake: so, by one rank alone, on torch's fake process group; profiler: its "
            "trace; flight_recorder: its dump",
        ),
        integer("world_size", doc="ranks of the whole job"),
        integer("rank", doc="of the whole job"),
        integer("step", doc="training steps before it"),
        integer("call", doc="counts the calls of the step from 0"),
        text("kind", doc="the collective, or send or recv"),
        text("reduction", nullable=True, doc="sum, avg, max...; empty: it reduces nothing; null: not known"),
        text("dtype", doc="torch's; empty: no tensor"),
        text("device", nullable=True, doc="cpu, cuda...; empty: no tensor; null: not known"),
        integer("inputs_bytes", doc="bytes that this rank gives"),
        integer("outputs_bytes", doc="bytes that this rank gets; in place: the same bytes"),
        texts("shapes", doc="of the inputs (of the outputs where it gives nothing), as 4x32"),
        integer(
            "root",
            nullable=True,
            doc="rank in the group of a broadcast, reduce, gather or scatter; null: none",
        ),
        integer(
            "peer",
            nullable=True,
            doc="rank in the group that it sends to or receives from; null: none, or anybody",
        ),
        flag(
            "uniform",
            nullable=True,
            doc="one tensor in and one out, of sizes that the library wants equal on all ranks of the group; null: "
            "not known",
        ),
        integers("input_splits", nullable=True, doc="rows for each rank; null: equal"),
        integers("output_splits", nullable=True, doc="rows from each rank; null: equal"),
        text("group", doc="torch's name of the process group; empty: not known"),
        integers("group_ranks", doc="its ranks in the whole job; empty: not known"),
        integers(
            "partition",
            nullable=True,
            doc="where one rank stands for all: the ranks of this group and of its siblings, one group after the "
            "other; null: each rank has rows of its own, or the siblings are not known",
        ),
        text("line", doc="file:line of the script; empty: no frame of the script is there"),
        text(
            "part",
            doc="the part of torch that calls, with its module; backward: C++ while gradients are computed; "
            "empty: the script",
        ),
        texts("parameters", doc="whose gradients are in it: a bucket of DDP; empty: others, or not known"),
        integers(
            "depends_on",
            nullable=True,
            doc="earlier calls that its inputs were made from; null: not followed in this step",
        ),
        number("step_us", nullable=True, doc="length of the step on this rank; null: not known"),
        number("issued_us", doc="since the step began"),
        number(
            "call_us",
            nullable=True,
            doc="time in the call itself; null: not known, or on a device, which makes it later",
        ),
        number("blocked_us", nullable=True, doc="time in its waits; null: not known, or on a device"),
        number(
            "used_us",
            nullable=True,
            doc="when its first wait began, since the step began; null: nobody waits (DDP waits unseen, in C++)",
        ),
        number(
            "done_us",
            nullable=True,
            doc="when it was over, since the step began; null: nobody took its future, which tells",
        ),
    ),
)
