"""The closed sets of the Program: operations, dtypes, placements, labels."""

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

LONGEST_MESSAGE = 1000


def printable(text: str) -> str:
    """Write out the characters a terminal or a page would act on: escapes, marks of direction, surrogates.

    Ends of lines and tabs stay.
    """
    odd = {c for c in set(text) if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029"} - {"\n", "\t"}
    return text.translate({ord(c): ascii(c)[1:-1] for c in odd})


class Rejected(ValueError):
    """A strategy is no legal Program; the message names the rule, the value, and the mend.

    `line` is the line of the strategy's source, if known.
    """

    line: int | None = None

    def at(self, line: int) -> "Rejected":
        """The same error, at a line (the innermost one stays)."""
        if self.line is None:
            self.line = line
        return self

    def __str__(self) -> str:
        message = printable(super().__str__())
        if len(message) > LONGEST_MESSAGE:
            message = f"{message[:LONGEST_MESSAGE]} ... ({len(message)} characters)"
        return message if self.line is None else f"line {self.line}: {message}"


class NotApplicable(Exception):
    """A strategy declares itself without meaning at this Case; the message is its reason."""

    def __str__(self) -> str:
        return printable(super().__str__())


class Kind(StrEnum):
    """The operation of a node."""

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
COALESCED = (Kind.ALL_REDUCE,)  # kinds that one library call may do for several values


class DType(StrEnum):
    """Element types. INT64 is for ids: inputs to look up by, never to compute with, sum or cast."""

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
    """When `schedule` issues a collective, and how many may then be in flight."""

    AS_WRITTEN = "as_written"  # waited for before the next of its depth that is not needed with it
    EARLY = "early"  # before any of its depth is waited for
    TWO = "2_in_flight"  # as soon as it can be, while fewer than so many are in flight
    FOUR = "4_in_flight"
    ALL = "all_in_flight"

    @property
    def words(self) -> str:
        """For people: `2 in flight`."""
        return self.value.replace("_", " ")


IN_FLIGHT = (IssueOrder.TWO, IssueOrder.FOUR, IssueOrder.ALL)


CALL_DIGITS = 12  # hexadecimal, of the name of a call
_GRAPH = re.compile(r"(g[1-9][0-9]*)?")  # it is printed into modules
_CALL = re.compile(rf"([0-9a-f]{{{CALL_DIGITS}}})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A collective's label: collectives that differ only in their labels are different nodes.

    Attributes:
        graph: The compiled graph it was traced in: empty before the strategy's first boundary, then `g1`, `g2`,
            ...
    """

    graph: str = ""
    issue: IssueOrder = IssueOrder.AS_WRITTEN
    call: str = ""  # the call shared with others (calls.py); empty: a call of its own

    def __post_init__(self) -> None:
        if not _GRAPH.fullmatch(self.graph):
            raise Rejected(f"a label's graph is empty, or g and a number (got {self.graph[:20]!r})")
        if not _CALL.fullmatch(self.call):
            raise Rejected(f"a label's call is empty, or {CALL_DIGITS} digits (got {self.call[:20]!r})")


NO_LABEL = Label()
