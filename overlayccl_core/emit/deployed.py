"""Deployed modules: the proven calls of a Problem in one file that needs torch and nothing of ours.

The source is a function of recipes, Programs, and the library and versions of their proof and measurements.
Predictions and measurements are in the .json beside it. Its classes and functions are real Python in runtime/; the
Programs and the table of Cases are printed here.
"""

import hashlib
import pprint
import textwrap
from collections.abc import Sequence

from overlayccl_core.emit.deployed_case import CHOSEN, PLAIN, DeployedCase, Stamp
from overlayccl_core.emit.entry_text import WIDTH, entry_text, literal
from overlayccl_core.emit.port_groups import PortGroup
from overlayccl_core.emit.runtime_text import names_defined, runtime_text
from overlayccl_core.emit.sections import PrintedSection, printed_sections
from overlayccl_core.emit.torch_dialect import (
    ATTENTION,
    EVENTS,
    LAYOUT,
    ModuleStore,
    generator_text,
    module_text,
)
from overlayccl_core.program.problem import Direction
from overlayccl_core.program.transpose import cotangent_port

GIVEN = "overlayccl_core.emit.runtime.given"
FOR_SCRIPTS = (  # the functions for scripts come first
    "overlayccl_core.emit.runtime.api",
    "overlayccl_core.emit.runtime.by_counts",
    "overlayccl_core.emit.runtime.connected",
    "overlayccl_core.emit.runtime.groups",
    "overlayccl_core.emit.runtime.entry",
    "overlayccl_core.emit.runtime.packing",
    "overlayccl_core.emit.runtime.agreement",
    "overlayccl_core.emit.runtime.versions",
)
API = ("cases", "ways", "connect", "stamp", "selftest")
_HEAD = '''\
"""Proven calls for {problem}.

Generated, and changed by generating it again only. It needs {needs} and nothing else.

{table}

    sums = {problem}.connect("{example}")  # on all ranks, in the same order
    results = sums.group(0)(tensors)  # lists of tensors, one on every rank; gradients flow
    sums.selftest()
    print(sums.stamp())

With OVERLAYCCL_PLAIN=1 in the environment of all ranks, the plain calls of the library run instead. With
OVERLAYCCL_CHECK=1 all ranks agree before every call of a group, and fail together.
"""'''


def deployed_module(problem: str, cases: Sequence[DeployedCase], stamp: Stamp, *, calls: str) -> str:
    """Return the source of deploy/<problem>.py.

    Args:
        calls: Dotted name of the file with the library's calls, as for `torch_dialect.emit`.

    Raises:
        ValueError: There are no Cases, foreign ones, or a Case twice.
    """
    ids = [case.case_id for case in cases]
    if not cases or len(set(ids)) != len(ids):
        raise ValueError(f"{problem}: a module holds at least one Case, and each once (got {ids})")
    if foreign := [c.case_id for c in cases if c.problems[Direction.FORWARD].case.problem != problem]:
        raise ValueError(f"{problem}: {foreign[0]} is a Case of another Problem")
    helpers: set[str] = set()
    written = [_written(number, case, helpers) for number, case in enumerate(cases)]
    names = {*API, "Read", "Write", "Section", "Entry", "Way", "Spec", "ports", *helpers}
    if any(case.is_exchange for case in cases) and "all_to_all_rows" in names_defined(calls):
        names.add("by_counts")
    runtime = runtime_text(
        names, (*FOR_SCRIPTS, EVENTS, calls, LAYOUT, ATTENTION), also=("torch",), given=names_defined(GIVEN)
    )
    return module_text(
        "\n\n".join(
            [_head(problem, cases, runtime.needs), runtime.imports, _constants(problem, cases, stamp)]
        ),
        runtime.definitions,
        *(builder for builders, _ in written for builder in builders),
        "\n".join(["ENTRIES = {", *(textwrap.indent(entry, "    ") for _, entry in written), "}"]),
    )


def _head(problem: str, cases: Sequence[DeployedCase], needs: Sequence[str]) -> str:
    table = "\n".join(line for case in cases for line in _listed(case))
    return _HEAD.format(problem=problem, table=table, example=cases[0].case_id, needs=" and ".join(needs))


def _listed(case: DeployedCase) -> list[str]:
    others = [f"    {way}: {_what(way, case)}" for way in case.ways if way not in (CHOSEN, PLAIN)]
    return [f"{case.case_id}: {_what(CHOSEN, case)}", *others]


def _constants(problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
    digests = " ".join(
        f"{way} {p.digest}" for case in cases for way in case.ways for p in case.programs(way).values()
    )
    return (
        f'PROBLEM = "{problem}"\n'
        "# Proof and measurements were made with these.\n"
        f"PROVEN = {literal({'library': stamp.library, **stamp.versions})}\n"
        "# Of the ways in this file, their names and Programs.\n"
        f'DIGEST = "{hashlib.blake2b(digests.encode(), digest_size=12).hexdigest()}"'
    )


def _written(number: int, case: DeployedCase, helpers: set[str]) -> tuple[list[str], str]:
    """Return (the functions of a Case, its entry in the table of Cases); add the called helpers to `helpers`."""
    groups = case.groups()
    made: dict[tuple[str, ...], tuple[str, str, str]] = {}  # ways of the same Programs share a function
    functions: dict[str, tuple[str, str]] = {}
    for way in case.ways:
        digests = tuple(program.digest for program in case.programs(way).values())
        if digests not in made:
            name = f"{way}_{number}"
            store = ModuleStore(case.problems[Direction.FORWARD].case, permutes="permutes")
            made[digests] = (name, *_builder(name, way, case, groups, store))
            helpers |= store.helpers
        name, _, why = made[digests]
        functions[way] = name, why
    return [text for _, text, _ in made.values()], entry_text(case, groups, functions)


def _builder(
    name: str, way: str, case: DeployedCase, groups: Sequence[PortGroup], store: ModuleStore
) -> tuple[str, str]:
    """Return (the function that makes the generators of one way of a Case, why it does not fall into groups)."""
    printed: dict[Direction, list[PrintedSection]] = {}
    why = ""
    for direction, program in case.programs(way).items():
        group_of = {
            port: k
            for k, group in enumerate(groups)
            for p in (*group.inputs, *group.outputs)
            for port in ((cotangent_port(p), p) if direction is Direction.BACKWARD else (p,))
        }
        printed[direction], message = printed_sections(program, store, group_of)
        why = why or (f"{direction.value}: {message}" if message else "")
    lines = [
        f'"""{case.case_id}: {_what(way, case)}."""',
        f"RANKS = {store.ranks}",
        *(f"{name} = {text}" for name, text in store.tables.items()),
        *(f"{name} = {text}" for name, text in store.made.items()),
    ]
    for direction, sections in printed.items():
        for i, section in enumerate(sections):
            lines += ["", generator_text(f"{direction.value}_{i}", section.lines).rstrip()]
    lines.append("\nreturn {")
    for direction, sections in printed.items():
        lines.append(f'    "{direction.value}": (')
        lines += [_section(section, f"{direction.value}_{i}") for i, section in enumerate(sections)]
        lines.append("    ),")
    lines.append("}")
    body = textwrap.indent("\n".join(lines), "    ")
    return f"def {name}(permutes, members, new_group, ranks, rank, device):\n{body}", why


def _section(section: PrintedSection, statements: str) -> str:
    """Return the text of a Section of runtime/events.py."""
    text = f"{section.group}, {statements}, {dict(section.calls)!r}"
    if section.shared:
        shared = pprint.pformat(dict(section.shared), width=WIDTH - 20, compact=True, sort_dicts=False)
        text = "\n" + textwrap.indent(f"{text},\n{shared},", "    ") + "\n"
    return textwrap.indent(f"Section({text}),", " " * 8)


def _what(way: str, case: DeployedCase) -> str:
    if way == PLAIN:
        return "the plain calls"
    return ", backward ".join(proven.candidate for proven in case.ways[way].values())
