"""A counterexample in the author's terms: rank, index, expected, got, and the first operation that differs.

Expected and got are linear forms: sums of input elements of ranks, each with a factor.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from overlayccl_core.program.arithmetics import not_linear
from overlayccl_core.program.kinds import Kind
from overlayccl_core.program.meaning import TooLarge
from overlayccl_core.program.nodes import Node, Port, topological
from overlayccl_core.program.problem import port_text
from overlayccl_core.program.program import Program

MAX_TERMS = 2**18  # of all linear forms of one explanation
SHOWN_TERMS = 4

InputElement = tuple[Port, int, int]  # port, rank, index; rank -1: the same on all ranks
LinearForm = dict[InputElement, Fraction]
Element = tuple[int, int]  # rank, index


def explain(program: Program, reference: Program, port: Port, rank: int, index: int) -> str:
    """Describe one wrong element of an output in a sentence."""
    where = f"{port_text(port)} on rank {rank}, element {index}"
    try:
        got = linear_form(program.outputs[port], rank, index)
        want = linear_form(reference.outputs[port], rank, index)
        culprit = _first_difference(program.outputs[port], (rank, index), want)
    except TooLarge as error:
        return f"{where} is wrong: {error}"
    needs_collective = any(x.is_collective for x in topological([reference.outputs[port]]))
    return (
        f"{where}: expected {form_text(want)}, got {form_text(got)};"
        f" {_culprit_text(program, *culprit, needs_collective=needs_collective)}"
    )


def linear_form(node: Node, rank: int, index: int) -> LinearForm:
    """Return the linear form of one element: {(port, rank, index): factor}.

    Raises:
        TooLarge: The form has too many terms, or an operation is not linear.
    """
    order = topological([node])
    pending: dict[Node, dict[Element, Fraction]] = {node: {(rank, index): Fraction(1)}}
    form: LinearForm = {}
    spent = 0
    for x in reversed(order):
        places = pending.pop(x, {})
        spent += len(places)
        if spent > MAX_TERMS:
            raise TooLarge(f"its linear form has more than {MAX_TERMS} terms")
        for (r, i), factor in places.items():
            if x.kind is Kind.INPUT:
                term = (x.port, -1 if x.attr.equal else r, i)
                form[term] = form.get(term, Fraction(0)) + factor
            for coefficient, y, place in made_of(x, r, i):
                below = pending.setdefault(y, {})
                below[place] = below.get(place, Fraction(0)) + coefficient * factor
    return {term: factor for term, factor in form.items() if factor}


def made_of(x: Node, rank: int, index: int) -> Iterator[tuple[Fraction, Node, Element]]:
    """Yield (factor, operand, (rank, index)) for each term of one element of x."""
    one = Fraction(1)
    if wrong := not_linear(x):
        raise TooLarge(f"{wrong}: there is no linear form")
    match x.kind:
        case Kind.INPUT:
            return
        case Kind.VIEW:
            yield from _viewed(x, rank, index)
        case Kind.SCALE:
            yield x.ratio, x.operands[0], (rank, index)
        case Kind.CAST:
            yield one, x.operands[0], (rank, index)
        case Kind.SUM:
            for j in range(x.count):
                yield one, x.operands[0], (rank, j * x.size + index)
        case Kind.COLLECTIVE_PERMUTE:
            if x.sources[rank] >= 0:
                yield one, x.operands[0], (x.sources[rank], index)
        case _:
            for place in _gathered(x, rank, index):
                yield one, x.operands[0], place


def _viewed(x: Node, rank: int, index: int) -> Iterator[tuple[Fraction, Node, Element]]:
    destination, source, _ = x.map.row(rank)
    run = int(np.searchsorted(destination, index, "right")) - 1
    if source[run] < 0:
        return
    at = int(source[run] + index - destination[run])
    for y in x.operands:
        if at < y.size:
            yield Fraction(1), y, (rank, at)
            return
        at -= y.size


def _gathered(x: Node, rank: int, index: int) -> Iterator[Element]:
    members = x.groups.members[int(x.groups.group[rank])]
    place = int(x.groups.place[rank])
    match x.kind:
        case Kind.ALL_GATHER:
            size = x.operands[0].size
            yield members[index // size], index % size
        case Kind.ALL_TO_ALL:
            block = x.size // len(members)
            yield members[index // block], place * block + index % block
        case Kind.REDUCE_SCATTER:
            yield from ((r, place * x.size + index) for r in members)
        case _:
            yield from ((r, index) for r in members)


def _first_difference(node: Node, place: Element, want: LinearForm) -> tuple[Node, Element]:
    """Follow foreign terms towards the inputs; without any, return the last operation beyond mere layout."""
    while node.kind is not Kind.INPUT:
        below = [(y, at) for _, y, at in made_of(node, *place)]
        strange = next(((y, at) for y, at in below if set(linear_form(y, *at)) - set(want)), None)
        if strange is None and node.kind in (Kind.VIEW, Kind.CAST) and len(below) == 1:
            strange = below[0] if below[0][0].kind is not Kind.INPUT else None
        if strange is None or strange[0].kind is Kind.INPUT:
            break
        node, place = strange
    return node, place


def _culprit_text(program: Program, node: Node, place: Element, *, needs_collective: bool) -> str:
    """Describe the operation; an input as culprit means an output equal to that input."""
    if node.kind is not Kind.INPUT:
        return f"first operation that differs: {_operation_text(program, node, place)}"
    missing = ": a collective is missing" if needs_collective else ""
    return f"input {port_text(node.port)} is written as it is{missing}"


def _operation_text(program: Program, node: Node, place: Element) -> str:
    number = next((i for i, x in enumerate(program.nodes) if x is node), -1) + 1
    groups = f" over {node.groups}" if node.is_collective and node.kind is not Kind.COLLECTIVE_PERMUTE else ""
    where = f"(value {number} of {len(program.nodes)}) on rank {place[0]}, element {place[1]}"
    ports = list(dict.fromkeys(port_text(x.port) for x in node.operands if x.kind is Kind.INPUT))
    more = ", ..." if len(ports) > SHOWN_TERMS else ""
    takes = f", taking in {', '.join(ports[:SHOWN_TERMS])}{more}" if ports else ""
    return f"{node}{groups} {where}{takes}"


def form_text(form: LinearForm) -> str:
    """Return a form as text: partial[0, 1][5] of ranks 0..3 each + 1/4 gradient[2][7] of rank 1 + ..."""
    if not form:
        return "0"
    ranks: dict[tuple[Port, int, Fraction], list[int]] = {}
    for (port, rank, index), factor in sorted(form.items(), key=lambda item: repr(item[0])):
        ranks.setdefault((port, index, factor), []).append(rank)
    shown = [
        f"{'' if factor == 1 else f'{factor} '}{port_text(port)}[{index}] of {_ranks_text(sorted(of))}"
        for (port, index, factor), of in ranks.items()
    ]
    more = f" + ... ({len(shown)} in all)" if len(shown) > SHOWN_TERMS else ""
    return " + ".join(shown[:SHOWN_TERMS]) + more


def _ranks_text(ranks: list[int]) -> str:
    if ranks == [-1]:
        return "all ranks alike"
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]}..{ranks[-1]} each"
    return "ranks " + ", ".join(map(str, ranks[:SHOWN_TERMS])) + (", ..." if len(ranks) > SHOWN_TERMS else "")
