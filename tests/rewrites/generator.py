"""Small random Programs in which every rewrite rule finds work, and near patterns that just miss a rule.

A Program is one or two lines of one or two levels (microbatches and layers of a model). A cell is a line at a
level: a segment gives it inputs, some motifs are made of them, what nothing else reads is written, and the next
level of the line waits for that. Cells are often alike, as layers are.
"""

from random import Random

from overlayccl_core.program.case import Case, parameters
from overlayccl_core.program.kinds import NO_LABEL, DType, IssueOrder, Label, Placement, Rejected
from overlayccl_core.program.nodes import Node, Port, make_input, topological
from overlayccl_core.program.problem import PortSpec, Problem, Segment
from overlayccl_core.program.program import Program
from overlayccl_core.program.schedule import schedule
from tests.rewrites.draft import LARGEST, Draft
from tests.rewrites.judge import IDS
from tests.rewrites.motifs import MOTIFS, WEIGHTS

MACHINES = ((4, 2), (4, 2), (6, 3), (6, 2), (4, 4))  # ranks, ranks on a node
SIZES = (1, 2, 3, 4, 4, 6)
DTYPES = (DType.FLOAT32,) * 9 + (DType.BFLOAT16, DType.FLOAT64, DType.FLOAT16)
EARLY = Label(issue=IssueOrder.EARLY)
GRAPHS = tuple(Label(graph=f"g{i}") for i in range(1, 6))
LABELS = (
    (NO_LABEL,),
    (NO_LABEL,),
    (NO_LABEL, GRAPHS[0]),
    GRAPHS,
    GRAPHS[:2],
    GRAPHS[:1],
    (NO_LABEL, EARLY),
    (Label(graph="g1", issue=IssueOrder.EARLY), GRAPHS[1]),
)
CELLS = ((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 2))  # lines, levels


def random_program(seed: int) -> Program:
    """The Program of a seed: six motifs in one cell, or two or three in each of two or four."""
    return _Model(seed).program()


class _Model:
    """Cells, segments and outputs of one Program under construction."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.machine = self.random.choice(MACHINES)
        self.labels = self.random.choice(LABELS)
        self.linear = self.random.random() < 0.75
        self.inputs: dict[Port, PortSpec] = {}
        self.outputs: dict[Port, Node] = {}
        self.segments: list[Segment] = []
        self.made: list[list[Node]] = []  # of each line

    def program(self) -> Program:
        lines, levels = self.random.choice(CELLS)
        self.made = [[] for _ in range(lines)]
        written: list[list[Port]] = [[] for _ in range(lines)]
        alike = self.random.random() < 0.75
        motifs = {1: 6, 2: 3, 4: 2}[lines * levels]
        plan = self._plan(motifs)
        for level in range(levels):
            for line in range(lines):
                written[line] = self._cell(line, level, plan, written[line])
                plan = plan if alike else self._plan(motifs)
        self.segments.append(
            Segment(name=("use",), needs=tuple(self.outputs), after=tuple(s.name for s in self.segments))
        )
        return schedule(self._problem(), self.outputs)

    def _plan(self, motifs: int) -> list[int]:
        """Seeds: of the inputs, then of each motif."""
        return [self.random.randrange(2**32) for _ in range(motifs + 1)]

    def _cell(self, line: int, level: int, plan: list[int], before: list[Port]) -> list[Port]:
        """Make a cell of a line; the outputs that it writes."""
        wanted = [p for p in before if self.random.random() < 0.7] or before[:1]
        pool, ids = self._given((line, level), Random(plan[0]), tuple(wanted))
        if level and self.random.random() < 0.5:
            pool += self.made[line][-2:]
        if line and self.random.random() < 0.15:
            pool += self.made[0][-1:]
        made: list[Node] = []
        for seed in plan[1:]:
            draft = Draft(Random(seed), self.machine, self.labels, pool, linear=self.linear, ids=ids)
            try:
                values = draft.random.choices(MOTIFS, WEIGHTS)[0](draft)
            except Rejected:
                continue
            fresh = [x for x in values if x.size <= LARGEST]
            made += fresh
            pool += fresh
        self.made[line] += made
        return self._written((line, level), made or pool[:1])

    def _given(
        self, cell: tuple[int, int], random: Random, needs: tuple[Port, ...]
    ) -> tuple[list[Node], Node | None]:
        """Two or three inputs of a cell and (where it is not linear) ids, and the segment that gives them."""
        nodes, dtype = [], random.choice(DTYPES)
        for i in range(random.randint(2, 3)):
            port: Port = ("x", *cell, i)
            placement = Placement.REPLICATE if random.random() < 0.2 else Placement.VARYING
            own = random.choice(DTYPES) if random.random() < 0.2 else dtype
            spec = PortSpec(shape=(random.choice(SIZES),), dtype=own, placement=placement)
            self.inputs[port] = spec
            equal = placement is Placement.REPLICATE
            nodes.append(make_input(port, equal=equal, size=spec.size, dtype=own))
        gives: list[Port] = [("x", *cell, i) for i in range(len(nodes))]
        ids = None if self.linear else self._ids(cell, random)
        if ids is not None:
            gives.append(ids.port)
        self.segments.append(Segment(name=("cell", *cell), needs=needs, gives=tuple(gives)))
        return nodes, ids

    def _ids(self, cell: tuple[int, int], random: Random) -> Node:
        """Six ids; at times each rank has its own."""
        equal = random.random() < 0.85
        placement = Placement.REPLICATE if equal else Placement.VARYING
        port: Port = ("ids", *cell)
        self.inputs[port] = PortSpec(shape=(6,), dtype=DType.INT64, placement=placement, within=(0, IDS - 1))
        return make_input(port, equal=equal, size=6, dtype=DType.INT64)

    def _written(self, cell: tuple[int, int], made: list[Node]) -> list[Port]:
        """Write what nothing else of the cell reads, and sometimes something that is read too."""
        read = {y for x in topological(made) for y in x.operands}
        some = list(dict.fromkeys(x for x in made if x not in read or self.random.random() < 0.3))
        some += self.random.choices(some, k=int(self.random.random() < 0.1))
        ports: list[Port] = [("y", *cell, i) for i in range(len(some))]
        self.outputs.update(zip(ports, some, strict=True))
        return ports

    def _spec(self, x: Node) -> PortSpec:
        """An output; at times it means something on some ranks only, or in part."""
        valid = None
        if self.random.random() < 0.15:
            whole = self.random.random() < 0.7
            some = [x.size if whole else self.random.randrange(x.size + 1) for _ in range(self.machine[0])]
            valid = tuple(n if self.random.random() < 0.5 else 0 for n in some)
        return PortSpec(shape=(x.size,), dtype=x.dtype, valid=valid)

    def _problem(self) -> Problem:
        ranks, ranks_per_node = self.machine
        case = Case(
            problem="campaign",
            ranks=ranks,
            ranks_per_node=ranks_per_node,
            name="small",
            parameters=parameters({"seed": self.seed}),
        )
        return Problem(
            case=case,
            inputs=self.inputs,
            outputs={port: self._spec(x) for port, x in self.outputs.items()},
            segments=tuple(self.segments),
            parameters={"ranks": ranks, "ranks_per_node": ranks_per_node},
            linear=self.linear,
        )
