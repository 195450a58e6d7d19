"""Common columns of all tables of timings: one row per (launch, Program)."""

from overlayccl_core.tables.table import flag, integer, integers, number, numbers, text

FINGERPRINT = text("fingerprint", doc="machine, libraries, ranks and environment of the measurement")
FINGERPRINT_OR_NULL = text("fingerprint", nullable=True, doc="of the measurements used; null: none")
OF_A_LAUNCH = (
    flag("oversubscribed", doc="more ranks than cores"),
    number(
        "foreign_cpu_share",
        nullable=True,
        doc="of the CPU, taken by others in the launch (0..1); null: it was cut off before this was known",
    ),
    flag("disturbed", doc="foreign_cpu_share was too high, also when repeated"),
    text(
        "nodes",
        doc="CPU, cores, kernel and drivers of the nodes, as their agents tell; empty: all ranks on this host",
    ),
    number(
        "clock_off_by_us",
        doc="the most by which the clocks of two nodes, and so a sample's length, may be off",
    ),
)

REPEAT_ERROR = number(
    "repeat_rel_error", doc="error of a time by noise: half the difference of even and odd rounds"
)

TIMING_COLUMNS = (
    text("program", doc="digest of the Program"),
    text("program_json", doc="the Program"),
    integer("launch", doc="which start of the ranks; ratios hold within one only"),
    number(
        "first_call_us",
        nullable=True,
        doc="the first call of the launch, outside of its samples; null: it was not looked at",
    ),
    number(
        "compile_us",
        nullable=True,
        doc="of the first call in the library's compiler or its cache; 0: nothing is compiled",
    ),
    integer("graphs", nullable=True, doc="compiled or found by the first call; 0: nothing is compiled"),
    integer("repeats", doc="back-to-back calls in a sample"),
    numbers("samples_us", doc="slowest rank's time per call"),
    integers("slowest_rank", doc="the rank of each of samples_us"),
    integer("rounds", doc="samples taken"),
    *OF_A_LAUNCH,
    FINGERPRINT,
)
