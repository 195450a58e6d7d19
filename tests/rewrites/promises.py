"""What a rule promises besides equality: labels, sizes, caps, groups. A promise says what is wrong, or nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from overlayccl_core.program.kinds import DType, IssueOrder, Kind, Label
from overlayccl_core.program.nodes import Node, substitute, topological
from overlayccl_core.program.payload import payload_bytes
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites import rule as rules_
from overlayccl_core.rewrites.classes import tiers


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """A rule that was applied at the sites of a class."""

    rule: str
    program: Program
    sites: Sequence[Node]
    knob: str
    result: Program

    @property
    def fresh(self) -> list[Node]:
        """The collectives that were not there before."""
        before = set(self.program.collectives)
        return [x for x in self.result.collectives if x not in before]

    @property
    def standing(self) -> list[Node]:
        """The collectives of what is in the place of the sites, without what is rebuilt on top of them."""
        replacements = rules_.rule(self.rule).rewrite(self.program, self.sites, self.knob)
        outputs = substitute({(str(i),): x for i, x in enumerate(replacements)}, replacements)
        return [x for x in topological(outputs.values()) if x.is_collective]

    @property
    def made(self) -> list[Node]:
        """Those of them that are new."""
        before = set(self.program.collectives)
        return [x for x in self.standing if x not in before]

    @property
    def gone(self) -> list[Node]:
        """The sites that are no more."""
        after = set(self.result.collectives)
        return [x for x in self.sites if x not in after]


Promise = Callable[[Applied], str]


def labels(program: Program) -> set[Label]:
    """The labels of its collectives, whatever call they share: what is of another kind has a call of its own."""
    return {uncalled(x) for x in program.collectives}


def uncalled(x: Node) -> Label:
    """A label without the call."""
    return replace(x.label, call="")


def payload(program: Program) -> int:
    """Bytes of all collectives on one rank."""
    return sum(payload_bytes(x) for x in program.collectives)


def no_new_label(a: Applied) -> str:
    """What replaces a collective has its label."""
    new = {uncalled(x) for x in a.fresh} - labels(a.program)
    return f"made up the labels {new}" if new else ""


def every_label_stays(a: Applied) -> str:
    """Nothing changed its graph or its order."""
    lost = labels(a.program) - labels(a.result)
    return f"lost the labels {lost}" if lost else no_new_label(a)


def labels_of_the_class_stay(a: Applied) -> str:
    """What goes has its label in what comes."""
    lost = {uncalled(x) for x in a.gone} - {uncalled(x) for x in a.standing}
    return f"lost the labels {lost}" if lost else no_new_label(a)


def only_graphs_go(a: Applied) -> str:
    """No graph at what the class became; issue orders as before."""
    wanted = {replace(x.label, graph="", call="") for x in a.sites}
    if not wanted <= labels(a.result):
        return f"there should be the labels {wanted}"
    new = labels(a.result) - labels(a.program) - wanted
    return f"made up the labels {new}" if new else ""


def only_order_changes(a: Applied) -> str:
    """The class is early; graphs as before."""
    wanted = {replace(x.label, issue=IssueOrder.EARLY, call="") for x in a.sites}
    if not wanted <= labels(a.result):
        return f"there should be the labels {wanted}"
    new = labels(a.result) - labels(a.program) - wanted
    return f"made up the labels {new}" if new else ""


def moves_less(a: Applied) -> str:
    """Fewer bytes, or it was for nothing."""
    before, after = payload(a.program), payload(a.result)
    return "" if after < before else f"moves {after} bytes instead of {before}"


def moves_no_more(a: Applied) -> str:
    """At most as many bytes."""
    before, after = payload(a.program), payload(a.result)
    return "" if after <= before else f"moves {after} bytes instead of {before}"


def talks_less(a: Applied) -> str:
    """Fewer collectives, since members that hold the same say nothing."""
    before, after = len(a.program.collectives), len(a.result.collectives)
    return "" if after < before else f"{after} collectives instead of {before}"


def several_members(a: Applied) -> str:
    """Groups of one rank are left alone: nothing moves there."""
    alone = [x for x in a.gone if x.groups.size == 1]
    return f"rewrote {len(alone)} collectives of groups of one rank" if alone else ""


def still_several(a: Applied) -> str:
    """Nobody is left alone in a group."""
    alone = [x for x in a.made if x.kind is not Kind.COLLECTIVE_PERMUTE and x.groups.size == 1]
    return f"{alone} have one member" if alone else ""


def only_the_class(a: Applied) -> str:
    """What stands below the class stays as it is."""
    after, depth = set(a.result.collectives), a.sites[0].depth
    gone = [x for x in a.program.collectives if x.depth < depth and x not in after]
    return f"{gone} are gone, which are not of the class" if gone else ""


def within_the_cap(a: Applied) -> str:
    """A bucket of several values holds at most the knob's share of the class."""
    if a.knob == "all":
        return talks_less(a)
    held = [max(x.operands[0].bytes, x.bytes) for x in a.sites]
    parts = Fraction(1, 1) if a.knob.endswith("MiB") else Fraction(a.knob)
    cap = max(sum(held) * parts, Fraction(max(held)))
    above = [x for x in a.made if max(x.operands[0].bytes, x.bytes) > cap]
    return f"buckets of {above} above {cap} bytes" if above else talks_less(a)


def no_more_calls(a: Applied) -> str:
    """What one call did before it still does."""
    before, after = len(a.program.calls), len(a.result.calls)
    return "" if after <= before else f"{after} calls instead of {before}"


def in_parts(a: Applied) -> str:
    """Sites with columns enough into the knob's number of parts, of sizes that differ by one at most."""
    allowed = set()
    for x in a.sites:  # one that is still there may be a part of another
        rows = x.groups.size if x.kind in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL) else 1
        width = x.operands[0].size // rows
        if width >= int(a.knob):
            allowed |= {rows * (width // int(a.knob)), rows * -(-width // int(a.knob))}
    odd = [x for x in a.made if x.operands[0].size not in allowed]
    return f"parts {odd} are not of {sorted(allowed)} elements" if odd or not a.gone else ""


def narrow_on_the_wire(a: Applied) -> str:
    """What is new moves elements of the knob's type."""
    wide = [x for x in a.gone if x.dtype.bytes <= DType(a.knob).bytes]
    return f"{wide} were narrow enough" if wide else ""


def over_tiers(a: Applied) -> str:
    """What replaces the world's collectives runs in nodes and across them."""
    both = tiers(a.program.problem.case)
    kept = [x for x in a.gone if not x.groups.is_world]
    if both is None or kept:
        return f"there are the tiers {both}; {kept} were not of the world"
    return ""


def all_of_them(a: Applied) -> str:
    """No site of several ranks stays."""
    after = set(a.result.collectives)
    left = [x for x in a.sites if x in after and x.groups.size > 1]
    return f"{left} stayed" if left else ""


def promises(rule: str) -> tuple[Promise, ...]:
    """What a rule is held to."""
    return PROMISES.get(rule, ()) or (no_new_label,)


PROMISES: dict[str, tuple[Promise, ...]] = {
    "drop_boundary": (only_graphs_go,),
    "early_issue": (only_order_changes,),
    "coalesce": (labels_of_the_class_stay, no_more_calls, moves_no_more),
    "merge": (labels_of_the_class_stay, within_the_cap),
    "split": (every_label_stays, in_parts),
    "wire_dtype": (every_label_stays, narrow_on_the_wire),
    "ring": (no_new_label, several_members, all_of_them),
    "two_tiers": (every_label_stays, over_tiers),
    "reduce_scatter_all_gather": (every_label_stays, several_members),
    "gather_and_sum": (every_label_stays, several_members),
    "exchange_and_sum": (every_label_stays, several_members),
    "exchange_of_copies": (every_label_stays, several_members),
    "gather_of_copies": (no_new_label, several_members),
    "all_reduce_of_parts": (every_label_stays, several_members, moves_no_more),
    "all_reduce_of_gather": (no_new_label, several_members),
    "permute_directly": (every_label_stays, only_the_class, moves_no_more),
    "exchange_of_permutes": (
        labels_of_the_class_stay,
        talks_less,
        still_several,
    ),
    "push_through_gather": (labels_of_the_class_stay, several_members),
    "reduce_scatter_of_sum": (no_new_label, several_members),
    "one_reduction": (labels_of_the_class_stay, moves_less, only_the_class),
    "equal_copies": (no_new_label, talks_less),
    "send_what_is_read": (no_new_label, moves_less),
    "permute_what_is_read": (no_new_label, moves_less),
    "narrow_groups": (no_new_label, moves_less, still_several),
    "packed_layout": (no_new_label, moves_less),
    "scatter_what_is_read": (no_new_label, moves_no_more),
    "disjoint_support": (no_new_label,),
}
