"""Deployed modules: the proven calls of a Problem in one file that needs torch and nothing of ours.

The source is a function of recipes, Programs, and the library and versions that they were proven and measured
with; predictions and measurements live in the .json beside it.
"""

import hashlib
import pprint
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from overlayccl_core.emit import deployed_prelude, deployed_runtime
from overlayccl_core.emit import torch_prelude as prelude
from overlayccl_core.emit.port_groups import Part, PortGroup, port_groups, printed_parts
from overlayccl_core.emit.torch_dialect import ModuleStore, generator_text
from overlayccl_core.program.kinds import COLLECTIVES, Kind, Placement
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, PortSpec
from overlayccl_core.program.program import Program
from overlayccl_core.program.transpose import cotangent_port

WIDTH = 108
REORDERED_TOLERANCE = 1e-5  # as in gates/numerics: sums in float32 or wider, in another order
LOSSY_TOLERANCE = 3e-2  # as in gates/numerics: sums in 16 bits
_SIDES = ("chosen", "plain")


class Gradient(StrEnum):
    """How gradients pass a group of a Case: by its backward Program; through the Case itself, which is the
    backward of an identity (Megatron's f); not at all."""

    BACKWARD = "backward"
    IN_BACKWARD = "in_backward"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What proof and measurements were made with.

    library: as the ranks call it. versions: software -> version, as the backend compares them.
    """

    library: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One Case of a module: the chosen Programs, and the developer's, which are the plain calls.

    candidate, recipe (one line of JSON), numerics (exact | reordered | lossy): of the forward; with `backward_`
    of the backward. Backward Programs are needed where the Case has a backward Problem, the identity included
    (`simplify(transpose(forward, ...))`), and only there: `has_backward` is what the catalog says.
    """

    case_id: str
    candidate: str
    recipe: str
    numerics: str
    forward: Program
    plain_forward: Program
    has_backward: bool
    backward: Program | None = None
    plain_backward: Program | None = None
    backward_candidate: str = ""
    backward_recipe: str = ""
    backward_numerics: str = ""

    def __post_init__(self) -> None:
        pairs = [(self.forward, self.plain_forward, Direction.FORWARD)]
        if (self.backward is None) is self.has_backward or (self.plain_backward is None) is self.has_backward:
            raise ValueError(
                f"{self.case_id}: a Case with a backward needs `backward` and `plain_backward`, where it is the"
                " identity too, and one without needs none of them: give what catalog.backward asks for"
            )
        if self.backward is not None and self.plain_backward is not None:
            pairs.append((self.backward, self.plain_backward, Direction.BACKWARD))
        for chosen, plain, direction in pairs:
            for program in (chosen, plain):
                of = program.problem
                if of.case.id != self.case_id or of.direction is not direction:
                    raise ValueError(
                        f"{self.case_id} {direction.value}: got a Program of {of.case.id} {of.direction.value}"
                    )

    @property
    def gradient(self) -> Gradient:
        """A Case of partial sums that has no backward runs in the backward pass itself."""
        if self.has_backward:
            return Gradient.BACKWARD
        inputs = self.forward.problem.inputs.values()
        partial = all(spec.placement is Placement.PARTIAL for spec in inputs)
        return Gradient.IN_BACKWARD if partial else Gradient.NONE

    def programs(self, side: str) -> dict[str, Program]:
        """direction -> Program, of the chosen or the plain side."""
        pair = (
            (self.forward, self.backward) if side == "chosen" else (self.plain_forward, self.plain_backward)
        )
        return {p.problem.direction.value: p for p in pair if p is not None}


def deployed_module(problem: str, entries: Sequence[Deployed], stamp: Stamp) -> str:
    """The source of deploy/<problem>.py. ValueError without entries, for foreign ones, or for a Case twice."""
    ids = [entry.case_id for entry in entries]
    if not entries or len(set(ids)) != len(ids):
        raise ValueError(f"{problem}: a module holds at least one Case, and each once (got {ids})")
    if foreign := [e.case_id for e in entries if e.forward.problem.case.problem != problem]:
        raise ValueError(f"{problem}: {foreign[0]} is a Case of another Problem")
    helpers: set[str] = set()
    written = [_written(number, entry, helpers) for number, entry in enumerate(entries)]
    counted = [kind.value for kind in COLLECTIVES if kind.value in helpers]
    body = [
        prelude.EVENTS,
        deployed_prelude.API,
        prelude.CONNECT_HELPERS,
        *(text for name, text in prelude.HELPERS.items() if name in helpers),
        deployed_prelude.LIBRARY.format(
            calls="\n".join(f"        self.{kind} = self._counted({_with_group(kind)})" for kind in counted)
        ),
        deployed_runtime.ENTRY,
        deployed_runtime.CONNECTED,
        deployed_runtime.GROUPS,
        *(functions for functions, _ in written),
        "\nENTRIES = {",
        *(textwrap.indent(text, "    ") for _, text in written),
        "}\n",
    ]
    return "\n".join([_head(problem, entries, stamp), *body])


def _with_group(kind: str) -> str:
    return f"{kind}, permutes" if kind == Kind.COLLECTIVE_PERMUTE else kind


def _head(problem: str, entries: Sequence[Deployed], stamp: Stamp) -> str:
    digests = [p.digest for e in entries for side in _SIDES for p in e.programs(side).values()]
    table = []
    for entry in entries:
        back = f", backward {entry.backward_candidate}" if entry.has_backward else ""
        table.append(f"{entry.case_id}: {entry.candidate}{back}")
    return deployed_prelude.HEAD.format(
        problem=problem,
        name=problem,
        table="\n".join(table),
        example=entries[0].case_id,
        proven=_literal({"library": stamp.library, **stamp.versions}),
        digest=hashlib.blake2b(" ".join(digests).encode(), digest_size=12).hexdigest(),
    )


def _written(number: int, entry: Deployed, helpers: set[str]) -> tuple[str, str]:
    """(the functions of a Case, its entry in the table of Cases); `helpers` gets what they call."""
    groups = port_groups(entry.plain_forward)
    _check_gradient(entry, groups)
    functions: list[str] = []
    ungrouped: dict[str, str] = {}
    names: dict[str, str] = {}
    for side in _SIDES:
        if side == "plain" and _digests(entry, "plain") == _digests(entry, "chosen"):
            names[side], ungrouped[side] = names["chosen"], ungrouped["chosen"]
            continue
        names[side] = f"{side}_{number}"
        text, ungrouped[side] = _builder(names[side], side, entry, groups, helpers)
        functions.append(text)
    return "\n".join(functions), _entry(entry, groups, ungrouped, names)


def _digests(entry: Deployed, side: str) -> list[str]:
    return [p.digest for p in entry.programs(side).values()]


def _check_gradient(entry: Deployed, groups: Iterable[PortGroup]) -> None:
    """Where a group is an identity in the forward pass, its outputs must stand beside inputs."""
    problem = entry.forward.problem
    for group in groups if entry.gradient is Gradient.IN_BACKWARD else ():
        given = [(p[1:], problem.inputs[p].shape) for p in group.inputs]
        if given != [(p[1:], problem.outputs[p].shape) for p in group.outputs]:
            raise ValueError(
                f"{entry.case_id} sums partial values and has no backward, so its forward must be an identity:"
                " its outputs need the indices and shapes of its inputs"
            )


def _builder(
    name: str, side: str, entry: Deployed, groups: Sequence[PortGroup], helpers: set[str]
) -> tuple[str, str]:
    """(the function that makes the generators of one side of a Case, why it does not fall into groups)."""
    store = ModuleStore(entry.forward.problem.ranks)
    printed: dict[str, list[Part]] = {}
    why = ""
    for direction, program in entry.programs(side).items():
        port_of = cotangent_port if direction == Direction.BACKWARD else _same
        group_of = {port_of(p): k for k, g in enumerate(groups) for p in (*g.inputs, *g.outputs)}
        printed[direction], message = printed_parts(program, store, group_of)
        why = why or (f"{direction}: {message}" if message else "")
    helpers |= store.helpers
    calls = [kind.value for kind in COLLECTIVES if kind.value in store.helpers]
    lines = [
        f'"""{entry.case_id}: {_what(side, entry)}."""',
        f"RANKS = {store.ranks}",
        *(prelude.SHIFTED.strip("\n").splitlines() if "shifted" in store.helpers else ()),
        *(f"{name} = {text}" for name, text in store.tables.items()),
        *(f"{kind} = library.{kind}" for kind in calls),
        *(f"{name} = {text}" for name, text in store.made.items()),
    ]
    for direction, parts in printed.items():
        lines += [generator_text(f"{direction}_{i}", part.lines).rstrip() for i, part in enumerate(parts)]
    lines.append("\nreturn {")
    for direction, parts in printed.items():
        lines.append(f'    "{direction}": (')
        lines += [f"        ({part.group}, {direction}_{i})," for i, part in enumerate(parts)]
        lines.append("    ),")
    lines.append("}")
    body = textwrap.indent("\n".join(lines), "    ")
    return f"\ndef {name}(library, members, new_group, ranks, rank, device):\n{body}\n", why


def _what(side: str, entry: Deployed) -> str:
    if side == "plain":
        return "the plain calls"
    return entry.candidate + (f", backward {entry.backward_candidate}" if entry.has_backward else "")


def _same(port: Port) -> Port:
    return port


def _entry(
    entry: Deployed, groups: Sequence[PortGroup], ungrouped: Mapping[str, str], names: Mapping[str, str]
) -> str:
    """A Case in the module's table of Cases."""
    case = entry.forward.problem.case
    problems = {d: p.problem for d, p in entry.programs("chosen").items()}
    numerics = {"forward": entry.numerics, "backward": entry.backward_numerics}
    said = {
        "strategy": {"forward": entry.candidate, "backward": entry.backward_candidate},
        "recipe": {"forward": entry.recipe, "backward": entry.backward_recipe},
        "numerics": numerics,
    }
    said = {name: {d: by_direction[d] for d in problems} for name, by_direction in said.items()}
    for side, key in (("chosen", "program"), ("plain", "plain_program")):
        said[key] = {d: p.digest for d, p in entry.programs(side).items()}
    tolerance = {d: _tolerance(numerics[d], (p, entry.programs("plain")[d])) for d, p in _chosen(entry)}
    fields = {
        "ranks": repr(case.ranks),
        "members": _literal(case.members()),
        "gradient": repr(entry.gradient.value),
        "inputs": _port_tables({d: p.inputs for d, p in problems.items()}),
        "outputs": _port_tables({d: p.outputs for d, p in problems.items()}),
        "groups": _literal(tuple((g.inputs, g.outputs) for g in groups)),
        "tolerance": _literal(tolerance),
        "permutes": repr(_permutes(entry)),
        "said": _literal(said),
        "ungrouped": _literal(dict(ungrouped)),
        **names,
    }
    lines = "\n".join(f"    {name}={text}," for name, text in fields.items())
    return f'"{entry.case_id}": Entry(\n{lines}\n),'


def _permutes(entry: Deployed) -> bool:
    """True if one of its Programs has a permute."""
    programs = [p for side in _SIDES for p in entry.programs(side).values()]
    return any(x.kind is Kind.COLLECTIVE_PERMUTE for p in programs for x in p.nodes)


def _chosen(entry: Deployed) -> Iterable[tuple[str, Program]]:
    return entry.programs("chosen").items()


def _port_tables(ports: Mapping[str, Mapping[Port, PortSpec]]) -> str:
    """direction -> ports by Spec, those of one Spec in one line."""
    lines = ["{"]
    for direction, specs in ports.items():
        lines.append(f'    "{direction}": ports(')
        alike: dict[str, list[Port]] = {}
        for port, spec in specs.items():
            alike.setdefault(_spec(spec), []).append(port)
        for text, of in alike.items():
            lines += [f"        ({text},", textwrap.indent(f"{_literal(tuple(of))}),", " " * 9)]
        lines.append("    ),")
    return "\n    ".join("\n".join([*lines, "}"]).splitlines())


def _spec(spec: PortSpec) -> str:
    more = ", equal=True" if spec.placement is Placement.REPLICATE else ""
    more += f", valid_ranks={spec.valid_ranks}" if spec.valid_ranks is not None else ""
    return f"Spec({spec.shape}, torch.{spec.dtype.value}{more})"


def _tolerance(numerics: str, programs: Iterable[Program]) -> float:
    """How far the chosen calls may be from the plain ones: the class, or what the plain ones do themselves."""
    arithmetic = [x for p in programs for x in p.nodes if x.kind in _ARITHMETIC]
    if numerics == "lossy" or any(x.dtype.bytes == 2 for x in arithmetic):
        return LOSSY_TOLERANCE
    return REORDERED_TOLERANCE if arithmetic else 0.0


_ARITHMETIC = (Kind.SUM, Kind.SCALE, Kind.CAST, Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)


def _literal(value: object) -> str:
    return "\n    ".join(pprint.pformat(value, width=WIDTH - 8, compact=True, sort_dicts=False).splitlines())
