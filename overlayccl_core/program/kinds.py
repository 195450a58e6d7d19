"""The closed sets that a Program is made of: operations, dtypes, placements, labels."""

from dataclasses import dataclass
from enum import StrEnum

LONGEST_MESSAGE = 1000


class Rejected(ValueError):
    """A strategy that is not a legal Program; the message says which rule, which value, and the mend.

    `line` is the line of the strategy's source, where it is known.
    """

    line: int | None = None

    def at(self, line: int) -> "Rejected":
        """The same error, at a line (the innermost one stays)."""
        if self.line is None:
            self.line = line
        return self

    def __str__(self) -> str:
        message = super().__str__()
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]} ... ({len(message)} characters)"
        return message if self.line is None else f"line {self.line}: {message}"


class NotApplicable(Exception):
    """A strategy that says of itself that it has no meaning at this Case; the message is its reason."""


class Kind(StrEnum):
    """What a node computes."""

    INPUT = "input"
    VIEW = "view"
    SUM = "sum"
    SCALE = "scale"
    CAST = "cast"
    ROWWISE = "rowwise"
    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    COLLECTIVE_PERMUTE = "collective_permute"


COLLECTIVES = (
    Kind.ALL_REDUCE,
    Kind.ALL_GATHER,
    Kind.REDUCE_SCATTER,
    Kind.ALL_TO_ALL,
    Kind.COLLECTIVE_PERMUTE,
)

REDUCING = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
COALESCED = (Kind.ALL_REDUCE,)  # what one call of a library may do for several values


class DType(StrEnum):
    """Element types. INT64 is of ids: an input that is looked up by, never computed with, summed or cast."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT64 = "int64"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return _ITEM_BYTES[self]

    @property
    def short(self) -> str:
        """The form used in Case ids: f32, bf16."""
        return self.value.replace("bfloat", "bf").replace("float", "f").replace("int", "i")


_ITEM_BYTES = {DType.FLOAT64: 8, DType.FLOAT32: 4, DType.BFLOAT16: 2, DType.FLOAT16: 2, DType.INT64: 8}
FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16)


class Reduction(StrEnum):
    """How a reducing collective combines its members."""

    SUM = "sum"
    MAX = "max"


class Placement(StrEnum):
    """How the values of a port on the ranks make up one logical value."""

    VARYING = "varying"
    PARTIAL = "partial"
    REPLICATE = "replicate"


class IssueOrder(StrEnum):
    """When `schedule` issues a collective among those of its depth."""

    AS_WRITTEN = "as_written"
    EARLY = "early"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What distinguishes two collectives that compute the same.

    `graph` is the compiled graph that it was traced in: empty before the strategy's first boundary, then `g1`,
    `g2`, ... `call` is the call that it shares with others (calls.py), empty: it has one of its own. Collectives
    that differ only here are different nodes; without it they are one.
    """

    graph: str = ""
    issue: IssueOrder = IssueOrder.AS_WRITTEN
    call: str = ""


NO_LABEL = Label()
