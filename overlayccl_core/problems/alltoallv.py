"""alltoallv: every rank has rows for every other one, one behind the other; a matrix of counts says how many.

The exchange of a mixture of experts with unevenly spread tokens. The counts are part of the Case: one proof, one
compiled graph for each matrix. No buffer shows them, so a call brings its rank's row. The backward is the same
exchange with the counts transposed.

A buffer has room for the rank with the most rows. Behind a rank's own rows it is not valid where it is sent, and
zero where it arrives.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from overlayccl_core.configuration.fields import Count, Fields
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.program.case import Case, ParameterValue, fewer_ranks, one_way_factor
from overlayccl_core.program.case import parameters as sorted_parameters
from overlayccl_core.program.kinds import DType
from overlayccl_core.program.language import (
    all_to_all,
    concat,
    leading,
    pad,
    reduce_sum,
    reshape,
    slice_axis,
    split,
)
from overlayccl_core.program.problem import PortSpec, Problem, Segment, of_every_problem
from overlayccl_core.program.recorder import IO

Matrix = NDArray[np.int64]  # [N, N]: rows of rank i for rank j

ZIPF = 1.2  # how popular experts are in a mixture without balancing
BUSIEST = 4  # times as many rows
OWN = "counts"  # in place of a pattern's name

Pattern = Literal["uniform", "zipf", "skewed", "zeros", "random", "locality", "increasing"]
Rows = Annotated[int, Field(ge=0)]


class Entry(Fields):
    """Give pattern and rows, a multiple of the ranks; or counts, a row and a column for each rank."""

    width: Count = Field(description="elements of a row")
    rows: Count | None = Field(
        default=None,
        description="of a rank, if all pairs had as many: what a pattern starts from, and what counts must sum to",
    )
    pattern: Pattern | None = Field(
        default=None,
        description="how counts are drawn where none are given; beside counts, the name in the Case's id",
    )
    seed: int = Field(default=0, ge=0, description="of a pattern's draws (default: 0)")
    counts: tuple[tuple[Rows, ...], ...] = Field(
        default=(), description="[[rows that rank i has for rank j, for each j], for each i]"
    )

    @model_validator(mode="after")
    def _some_counts(self) -> Self:
        if not self.counts and (self.pattern is None or self.rows is None):
            raise ValueError("give counts, or pattern and rows")
        return self


def parameters(entry: Entry, ranks: int, dtype: DType) -> dict[str, ParameterValue]:
    """counts: the matrix, row by row; width: elements of a row; pattern: its name."""
    counts = _given(entry, ranks) if entry.counts else _drawn(entry, ranks)
    return {"counts": tuple(counts.ravel().tolist()), "width": entry.width, "pattern": entry.pattern or OWN}


def _given(entry: Entry, ranks: int) -> Matrix:
    sizes = {len(entry.counts), *map(len, entry.counts)}
    if sizes != {ranks}:
        raise ValueError(
            f"counts must have a row and a column for each of the {ranks} ranks (got {len(entry.counts)} rows of"
            f" {', '.join(map(str, sorted({*map(len, entry.counts)})))}): write out {ranks} x {ranks} counts"
        )
    counts = np.array(entry.counts, np.int64)
    for rank, rows in enumerate(counts.sum(1).tolist()):
        if entry.rows is not None and rows != entry.rows:
            raise ValueError(
                f"counts of each rank must sum to rows (got {rows} of rank {rank}, and rows {entry.rows}): change"
                " them, or leave rows out"
            )
    if not counts.any():
        raise ValueError("counts are all 0: there is nothing to exchange, so leave the Case out")
    return counts


def _drawn(entry: Entry, ranks: int) -> Matrix:
    assert entry.pattern is not None and entry.rows is not None
    each, rest = divmod(entry.rows, ranks)
    if rest:
        raise ValueError(
            f"rows must divide over the ranks (got {entry.rows} and {ranks}): choose a multiple of {ranks}"
        )
    return _of_pattern(entry.pattern, each, ranks, np.random.default_rng(entry.seed))


def _of_pattern(pattern: Pattern, each: int, ranks: int, random: np.random.Generator) -> Matrix:
    """Draw the counts; a pair has `each` rows where all have as many."""
    counts: Matrix = np.full((ranks, ranks), each)
    match pattern:
        case "uniform":  # expert-choice routing
            pass
        case "zipf":  # tokens choose among experts, the k-th most popular with a share of k^-1.2
            share = random.permutation(np.arange(1, ranks + 1) ** -ZIPF)
            counts = random.multinomial(each * ranks, share / share.sum(), ranks)
        case "skewed":  # four times as many to one rank
            counts[:, random.integers(ranks)] *= BUSIEST
        case "zeros":  # half the pairs have none; a rank and itself always have some
            some = random.random((ranks, ranks)) < 0.5
            counts[~(some | np.eye(ranks, dtype=bool))] = 0
        case "random":  # from 1 to twice as many
            counts = random.integers(1, 2 * each + 1, (ranks, ranks))
        case "locality":  # four times as many to itself, half of that to its neighbours on a ring, and so on
            ahead = (np.arange(ranks) - np.arange(ranks)[:, None]) % ranks
            halvings = np.ceil(np.log2(np.minimum(ahead, ranks - ahead) + 1)).astype(np.int64)
            counts = np.maximum(BUSIEST * each >> halvings, 1)
        case "increasing":  # from 1 for the first rank to twice as many for the last
            counts[:] = np.linspace(1, 2 * each, ranks).astype(np.int64)
    return counts


def counts_of(case: Case) -> Matrix:
    """[N, N]: rows of rank i for rank j."""
    return np.array(case["counts"]).reshape(case.ranks, case.ranks)


def name(case: Case) -> str:
    """zipf-64KiB: name of the counts, bytes of the largest send buffer."""
    return f"{case['pattern']}-{bytes_text(payload_bytes(case))}"


def problem(case: Case) -> Problem:
    """Ports ("send",) -> ("received",), (rows, width) each: by destination, then by source."""
    counts, width = counts_of(case), case["width"]
    sent, received = counts.sum(1), counts.sum(0)
    valid = tuple((sent * width).tolist())
    send = PortSpec(shape=(int(sent.max()), width), dtype=case.dtype, valid=valid)
    return Problem(
        case=case,
        inputs={("send",): send},
        outputs={("received",): replace(send, shape=(int(received.max()), width), valid=None)},
        segments=(
            Segment(name=("route",), gives=(("send",),)),
            Segment(name=("experts",), needs=(("received",),)),
        ),
        parameters={
            **of_every_problem(case),
            "width": width,
            "counts": case["counts"],
            "starts": tuple((counts.cumsum(1) - counts).ravel().tolist()),
            "places": tuple((counts.cumsum(0) - counts).ravel().tolist()),
            "chunk": int(counts.max()),
            "send_rows": int(sent.max()),
            "received_rows": int(received.max()),
        },
        arguments={"counts": tuple(map(tuple, counts.tolist()))},
    )


def reference(io: IO, p: Any) -> None:
    """Rows for each rank padded to the longest, exchanged, and put one behind the other."""
    n, ranks = p.world_size, range(p.world_size)
    send = pad(io.read("send"), 0, 0, p.send_rows + p.chunk)
    chunks = [
        leading(
            slice_axis(send, 0, [p.starts[r * n + to] for r in ranks], p.chunk),
            0,
            [p.counts[r * n + to] for r in ranks],
        )
        for to in ranks
    ]
    placed = [
        pad(
            leading(chunk, 0, [p.counts[source * n + r] for r in ranks]),
            0,
            [p.places[source * n + r] for r in ranks],
            p.received_rows + p.chunk,
        )
        for source, chunk in enumerate(split(all_to_all(concat(chunks)), n))
    ]
    stacked = concat([reshape(rows, (1, *rows.shape)) for rows in placed])
    io.write("received", slice_axis(reduce_sum(stacked, 0), 0, 0, p.received_rows))


def has_backward(case: Case) -> bool:
    """The gradients of the arrived rows go back."""
    return True


def equals_backward(case: Case) -> Case | None:
    """The same exchange with the counts transposed."""
    turned = tuple(counts_of(case).T.ravel().tolist())
    back = replace(case, parameters=sorted_parameters({**dict(case.parameters), "counts": turned}))
    return replace(back, name=name(back))


def payload_bytes(case: Case) -> int:
    """Bytes of the largest send buffer, the rank's own rows included."""
    return int(counts_of(case).sum(1).max() * case["width"] * case.dtype.bytes)


bus_factor = one_way_factor


def proxy(large: Case) -> dict[str, Any]:
    """The counts of some ranks: of so many on so many nodes. One row each where these have none."""
    fewer = fewer_ranks(large)
    places = np.arange(fewer["ranks"])
    node, place = np.divmod(places, fewer["ranks_per_node"])
    kept = node * large.ranks_per_node + place
    counts = counts_of(large)[np.ix_(kept, kept)]
    some = counts if counts.any() else np.ones_like(counts)
    pattern = {} if large["pattern"] == OWN else {"pattern": large["pattern"]}
    return {"counts": some.tolist(), "width": large["width"], **pattern}


def examples(ranks: int) -> dict[str, dict[str, Any]]:
    """By name: entries at which all its strategies are proven, at so many ranks."""
    train = {"rows": 10 * ranks, "width": 2048}  # OLMoE: 256 tokens for 8 of 224 experts
    patterns = {f"train-{pattern}": {"pattern": pattern, **train} for pattern in get_args(Pattern)}
    return {
        "small": {"pattern": "random", "rows": 6 * ranks, "width": 5},
        "train": patterns.pop("train-uniform"),  # expert-choice routing
        **patterns,
    }
