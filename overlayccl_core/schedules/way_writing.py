"""A schedule as a source in the strategy language: a way of summing, gathering, scattering or exchanging.

In a folder of one's own (`plugins/strategies/ways/sums.py`) it is a known way of every Problem of its kind, at the
schedule's number of ranks: priced, proven, timed, trained and deployed as any other.
"""

import re
from collections.abc import Iterator

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.nodes import Node, topological
from overlayccl_core.program.program import Program
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.ways import ways_of
from overlayccl_core.schedules.schedule import ALL_TO_NEXT, Schedule, entry, program

FILES = {
    "all_reduce": "sums.py",
    "all_gather": "gathers.py",
    "reduce_scatter": "scatters.py",
    "all_to_all": "exchanges.py",
    ALL_TO_NEXT: "nexts.py",
}
"""Collective -> the file of ways that its function belongs to."""
_WORDS = (
    *(
        "collective_permute",
        "concat",
        "flatten",
        "index_select",
        "not_applicable",
        "pad",
        "reduce_sum",
        "reshape",
    ),
    "slice_axis",
)
_BODIES = {
    "all_reduce": (
        "values",
        "    x = buffers.padded(buffers.joined(values), {chunks})",
        "    return buffers.apart(flatten(_{name}(reshape(x, ({chunks}, -1)))), values)",
    ),
    "all_gather": (
        "x",
        "    padded = buffers.padded(x, {chunks})",
        "    everybody = reshape(_{name}(reshape(padded, ({chunks}, -1))), ({ranks}, -1))",
        "    return slice_axis(everybody, 1, 0, x.shape[0])",
    ),
    ALL_TO_NEXT: (
        "x",
        "    padded = buffers.padded(x, {chunks})",
        "    return slice_axis(flatten(_{name}(reshape(padded, ({chunks}, -1)))), 0, 0, x.shape[0])",
    ),
    "reduce_scatter": (
        "x",
        "    share = flatten(_{name}(_{name}_chunks(x)))",
        "    return slice_axis(share, 0, 0, reshape(x, ({ranks}, -1)).shape[1])",
    ),
    "all_to_all": (
        "x",
        "    came = reshape(_{name}(_{name}_chunks(x)), ({ranks}, -1))",
        "    return reshape(slice_axis(came, 1, 0, reshape(x, ({ranks}, -1)).shape[1]), x.shape)",
    ),
}
_CHUNKS = """

def _{name}_chunks(x):
    parts = reshape(x, ({ranks}, -1))
    size = (parts.shape[1] + {each} - 1) // {each} * {each}
    return reshape(pad(parts, 1, 0, size), ({chunks}, -1))
"""


def way_source(schedule: Schedule, made_from: str) -> str:
    """Return the source of a file of ways with one function.

    Args:
        made_from: What its docstring names: a file, its digest.

    Raises:
        ValueError: Its collective has no file of ways.
    """
    if schedule.collective not in FILES:
        raise ValueError(f"{schedule.collective} has no file of ways: choose among {', '.join(FILES)}")
    name = function_name(schedule)
    n, chunks = schedule.ranks, schedule.chunks
    fill = {"name": name, "ranks": n, "chunks": chunks, "each": max(1, chunks // n)}
    argument, *body = (line.format(**fill) for line in _BODIES[schedule.collective])
    steps = "\n".join(_steps(schedule))
    split = _CHUNKS.format(**fill) if schedule.collective in ("reduce_scatter", "all_to_all") else ""
    text = f'''
def {name}({argument}, p):
    """{made_from}, of {n} ranks."""
    if p.world_size != {n}:
        not_applicable("it is of {n} ranks")
{chr(10).join(body)}


def _{name}(c0):
    """{chunks} chunks of a rank, by permutes and sums."""
{steps}
{split}'''
    used = [word for word in _WORDS if re.search(rf"\b{word}\(", text)]
    head = f'"""{schedule.collective} by a schedule of others. Read, never executed."""\n\n'
    imports = f"from overlayccl_core.program.language import {', '.join(used)}\n"
    ways = "from overlayccl_core.strategies.ways import buffers\n" if "buffers." in text else ""
    return head + imports + ways + "\n" + text


def way_at(schedule: Schedule, source: str, elements: int) -> Program:
    """Return the Program of a source of `way_source` in the library of the schedule's own Problem."""
    problem, fields = entry(schedule, elements)
    case = catalog.case(problem, fields, ranks=schedule.ranks, ranks_per_node=schedule.ranks)

    def ways(name: str) -> tuple[str, ...]:
        return (*ways_of(name), *([source] if FILES[schedule.collective] == f"{name}.py" else []))

    return trace_source(catalog.library_source(problem), function_name(schedule), catalog.build(case), ways)


def function_name(schedule: Schedule) -> str:
    """Return its name as a function's, which is no word of the language and no other way's."""
    plain = re.sub(r"[^a-z0-9]+", "_", schedule.name.removesuffix(" in place").lower()).strip("_")
    return f"schedule_{plain}"


def _steps(schedule: Schedule) -> Iterator[str]:
    """A line for each value, in chunks: traced at one element a chunk, elements are chunks."""
    n = schedule.ranks
    problem, fields = entry(schedule, schedule.chunks)
    case = catalog.case(problem, fields, ranks=n, ranks_per_node=n)
    made = program(schedule, catalog.build(case))
    (result,) = made.outputs.values()
    names: dict[Node, str] = {}
    for node in topological([result]):
        names[node] = f"c{len(names)}"
        if node.kind is not Kind.INPUT:
            yield f"    {names[node]} = {_expression(node, [names[x] for x in node.operands])}"
    yield f"    return {names[result]}"


def _expression(node: Node, operands: list[str]) -> str:
    (first, *_) = operands
    match node.kind:
        case Kind.VIEW:
            joined = f"concat([{', '.join(operands)}])" if len(operands) > 1 else first
            rows = node.map.table().tolist()
            return f"index_select({joined}, {rows[0] if node.map.rows == 1 else rows})"
        case Kind.SUM:
            return f"reduce_sum(reshape({first}, ({node.count}, {node.size}, -1)), 0)"
        case Kind.COLLECTIVE_PERMUTE:
            pairs = [(source, rank) for rank, source in enumerate(node.sources) if source >= 0]
            return f"collective_permute({first}, {pairs})"
        case _:
            raise AssertionError(f"a schedule is made of permutes and sums, and not of {node.kind}")
