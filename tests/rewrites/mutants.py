"""Planted mistakes: one for every side condition of every rule, as an edit of the function that holds it."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import pytest

from overlayccl_core.program import facts, simplify
from overlayccl_core.rewrites import demand
from overlayccl_core.rewrites import rule as rules_


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in the source of `function` of the rule's file, or of `module`."""

    rule: str
    condition: str
    function: str
    old: str
    new: str
    module: ModuleType | None = None

    @property
    def name(self) -> str:
        """How the test is called."""
        return f"{self.rule}: {self.condition}"

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function wherever the right one is."""
        files = {name: rules_.rule(name) for name in rules_.rule_names()}  # all have bound what is right
        home = self.module or cast(ModuleType, files[self.rule])
        right = getattr(home, self.function)
        source = textwrap.dedent(inspect.getsource(right))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} must stand once in {home.__name__}.{self.function}")
        space: dict[str, Callable[..., object]] = {}
        exec(compile(source.replace(self.old, self.new), "<mutant>", "exec"), vars(home), space)
        for name, module in list(sys.modules.items()):
            if name.startswith("overlayccl_core") and vars(module).get(self.function) is right:
                patch.setattr(module, self.function, space[self.function])


def _mutants(
    rule_name: str, *rows: tuple[str, str, str, str], module: ModuleType | None = None
) -> tuple[Mutant, ...]:
    """rows: condition, function, old, new."""
    return tuple(
        Mutant(rule=rule_name, condition=condition, function=function, old=old, new=new, module=module)
        for condition, function, old, new in rows
    )


NO_LABEL = "type(x.label)()"
LOST_LABEL = ("the label stays", "like", "x.label)", f"{NO_LABEL})")
_SUMS = "if adds(x) and "
_SEVERAL = " and x.groups.size > 1"
_READ = (
    ("an output is read in full", "reads", "x in program.outputs.values() or ", ""),
    ("what is not valid is read by others", "valid_of", "if users[x]:", "if False:"),
    ("an output of two ports", "valid_of", " and len(counts) == len(valid)", ""),
    ("what is no view reads all", "reads", " or any(u.kind is not Kind.VIEW for u in users[x])", ""),
    ("rows of zeros read nothing of a wider value", "read_by", "start[mine] - base", "start[mine]"),
)
_SENDERS = ("members are ranks", "of_gather", "x.groups.array[x.groups.group[rank], place]", "place")
_BLOCKS = (
    "pieces are cut at blocks",
    "of_gather",
    "offset=start % block",
    "offset=start % max(block - 1, 1)",
)

LABELS = (
    *_mutants(
        "drop_boundary", ("the issue order stays", "_of_no_graph", 'replace(x.label, graph="")', NO_LABEL)
    ),
    *_mutants(
        "early_issue",
        (
            "the graph stays",
            "_early",
            "replace(x.label, issue=IssueOrder.EARLY)",
            "type(x.label)(issue=IssueOrder.EARLY)",
        ),
    ),
)

_ALIKE = "(depths.node(x), x.kind, x.attr, x.dtype)"
BUCKETS = (
    *_mutants(
        "merge",
        ("one depth through the segments", "independent", _ALIKE, "(x.kind, x.attr, x.dtype)"),
        (
            "one set of groups",
            "independent",
            _ALIKE,
            "(depths.node(x), getattr(x.attr, 'sources', getattr(x.attr, 'reduction', 0)), x.label, x.dtype)",
        ),
        (
            "one set of partners",
            "independent",
            _ALIKE,
            "(depths.node(x), getattr(x.attr, 'groups', 0), getattr(x.attr, 'reduction', 0), x.label, x.dtype)",
        ),
        (
            "one reduction",
            "independent",
            _ALIKE,
            "(depths.node(x), getattr(x.attr, 'groups', x.attr), x.label, x.dtype)",
        ),
        (
            "one label",
            "independent",
            _ALIKE,
            "(depths.node(x), *(getattr(x.attr, k, 0) for k in ('groups', 'reduction', 'sources')), x.dtype)",
        ),
        ("one dtype", "independent", _ALIKE, "(depths.node(x), x.kind, x.attr)"),
        ("the cap", "in_buckets", "filled + size > cap", "False"),
        ("the cap counts all", "in_buckets", "filled += size", "filled = size"),
        ("blocks are joined one by one", "_joined", "blocks_in(first)", "1"),
        ("blocks are cut one by one", "_joined", "blocks_out(first)", "1"),
        ("values in the bucket's order", "_joined", "for x in bucket]", "for x in bucket[::-1]]"),
        ("values end where the next begin", "_joined", "start += width", "start += max(width - 1, 1)"),
    ),
    *_mutants(
        "split",
        ("no empty part", "_parts", "if wanted <= operand.size // blocks_in(x) else 1", ""),
        ("equal parts", "_in_parts", "width * i // parts for i in range(parts + 1)", "*range(parts), width"),
        ("blocks are cut one by one", "_in_parts", "blocks_in(x)", "1"),
        ("blocks are joined one by one", "_in_parts", "blocks_out(x)", "1"),
        ("parts in order", "_in_parts", "in pairwise(cuts)", "in list(pairwise(cuts))[::-1]"),
    ),
)

FORMS = (
    *_mutants(
        "reduce_scatter_all_gather",
        ("a sum", "rewrite", _SUMS, "if "),
        ("several ranks", "rewrite", _SEVERAL, ""),
        ("padding", "_by_shares", "padded(operand, x.groups.size)", "operand"),
        ("padding goes", "_by_shares", ", x.size)", ", share.size * x.groups.size)"),
    ),
    *_mutants("reduce_scatter_all_gather", LOST_LABEL, module=rules_),
    *_mutants(
        "gather_and_sum", ("a sum", "rewrite", _SUMS, "if "), ("several ranks", "rewrite", _SEVERAL, "")
    ),
    *_mutants("gather_and_sum", LOST_LABEL, module=rules_),
    *_mutants(
        "exchange_and_sum", ("a sum", "rewrite", _SUMS, "if "), ("several ranks", "rewrite", _SEVERAL, "")
    ),
    *_mutants("exchange_and_sum", LOST_LABEL, module=rules_),
    *_mutants(
        "exchange_of_copies",
        ("several ranks", "rewrite", "if x.groups.size > 1", "if True"),
        ("a copy for each", "_of_copies", "operand.size, x.groups.size", "operand.size, x.groups.size - 1"),
    ),
    *_mutants("exchange_of_copies", LOST_LABEL, module=rules_),
    *_mutants(
        "all_reduce_of_parts",
        (
            "one set of groups",
            "_gathers_shares",
            "share.groups is x.groups",
            "share.groups.size == x.groups.size",
        ),
        ("one label", "_gathers_shares", "and share.label == x.label", ""),
        ("a sum", "_gathers_shares", "and adds(share)", ""),
        ("several ranks", "_gathers_shares", "and x.groups.size > 1", ""),
        ("zeros on every rank", "_size_without_padding", "or x.map.rows > 1 ", ""),
        ("zeros only", "_size_without_padding", "int(x.map.keys[-1])", "int(x.map.keys[-1]) - 1"),
    ),
    *_mutants("all_reduce_of_parts", LOST_LABEL, module=rules_),
    *_mutants(
        "all_reduce_of_gather",
        ("a block from each member", "sums_over_members", " and total.count == x.groups.size", ""),
        LOST_LABEL,
        module=rules_,
    ),
    *_mutants(
        "reduce_scatter_of_sum",
        ("a block from each member", "sums_over_members", " and total.count == x.groups.size", ""),
        LOST_LABEL,
        module=rules_,
    ),
    *_mutants(
        "gather_of_copies",
        ("equal blocks", "_one_block", ' and folded[0] == "equal"', ""),
        ("as many as members", "_one_block", "fold(operand.map, x.groups.size)", "fold(operand.map, 2)"),
        ("a layout", "_one_block", "operand.kind is not Kind.VIEW or ", ""),
    ),
    *_mutants("gather_of_copies", LOST_LABEL, module=rules_),
    *_mutants(
        "one_reduction",
        ("one set of groups", "_saves", "(x.groups, x.label)", "x.label"),
        ("one label", "_saves", "(x.groups, x.label)", "x.groups"),
        ("sums", "_saves", "x in sites and adds(x)", "x in sites"),
        ("of the class", "_saves", "x in sites and adds(x)", "x.kind is Kind.ALL_REDUCE and adds(x)"),
        ("one layout for all", "_saves", "joined.map.rows > 1", "False"),
        ("smaller than before", "_saves", "total.size < sum(x.size for x in reductions)", "True"),
        ("read by nothing else", "_saves", "all(lone(x) for x in (*layout, *parts, *reductions))", "True"),
        ("ratios stay", "_reduced_once", "make_scale(operand, part.ratio)", "operand"),
    ),
    *_mutants("one_reduction", LOST_LABEL, module=rules_),
)

FACTS = (
    *_mutants(
        "equal_copies",
        ("equal within the groups", "without_talk", "if equal_in_groups(operand, x.groups)", "if True"),
        ("all that is laid out", "without_talk", "all(equal_in_groups", "any(equal_in_groups"),
        ("layouts differ by rank", "without_talk", "if gathers and ", "if "),
        ("a maximum is not multiplied", "_local", "1 if is_max(x) else g", "g"),
        ("my slice", "_local", "groups.place * x.size", "0 * groups.place"),
        ("each member's layout", "_from_members", "if map_.rows > 1", "if False"),
        ("each member's block for me", "_from_members", "if x.kind is Kind.ALL_TO_ALL", "if False"),
        module=simplify,
    ),
    *_mutants(
        "equal_copies",
        ("equal in this group", "equal_in_groups", "numbers == numbers[:, :1]", "numbers == numbers[:1]"),
        module=facts,
    ),
    *_mutants("push_through_gather", LOST_LABEL, module=rules_),
    *_mutants(
        "push_through_gather",
        ("several ranks", "rewrite", "if x.groups.size > 1", "if True"),
        ("one layout for all", "parts_of", " or layout.rows > 1", ""),
        ("no element twice", "parts_of", "(source[1:] < (source + length)[:-1]).any()", "False"),
        ("no zeros", "_elements", "if parts and not parts.has_zeros", "if parts"),
        (
            "others are equal copies",
            "_elements",
            "if not all(equal_in_groups",
            "if not any(True or equal_in_groups",
        ),
        ("the others' elements of mine", "_elements_of_mine", "parts.start", "parts.offset"),
        ("the others' rows of mine", "_rows_of_mine", "np.append(at, block)", "np.array([block])"),
        (
            "casts and scales stay",
            "_of_mine",
            "rebuild(x, [_of_mine(x.operands[0], layout, go)])",
            "_of_mine(x.operands[0], layout, go)",
        ),
        ("no zeros in a maximum", "_reduced", "if maximum and parts.has_zeros", "if False"),
        ("a maximum stays one", "_reduced", "Reduction.MAX if maximum else", ""),
        ("the label of a reduction stays", "_reduced", "parts.gather.label", "type(parts.gather.label)()"),
        ("equally many of each row", "_in_rows", "(filled != filled[0]).any()", "False"),
        ("equal ids", "_picked", "not equal_in_groups(ids, groups) or ", ""),
        ("ids count alike", "_picked", " or (first != first[:, :1]).any()", ""),
        ("ids count from my own", "_picked", " + lowest[groups.place]", ""),
    ),
    *_mutants(
        "disjoint_support",
        ("a sum", "rewrite", "if adds(x) and ", "if "),
        ("nobody meets", "gather_plan", " or meets(groups.group[live[0]], live[1], live[2], x.size)", ""),
        ("nobody meets in the group", "gather_plan", "groups.group[live[0]], live[1]", "live[0], live[1]"),
        ("members in order", "gather_plan", "groups.place[rank] * most", "(rank % groups.size) * most"),
        ("who packs nothing", "gather_plan", "first_that(", "np.zeros_like("),
        ("the first element is no zero", "support", "x.map.sources >= 0", "x.map.sources > 0"),
        ("a layout by rank", "support", "if x.map.rows == ranks", ""),
        ("who receives", "support", "np.array(x.sources) >= 0", "np.array(x.sources) > 0"),
    ),
    *_mutants("disjoint_support", LOST_LABEL, module=rules_),
    *_mutants("send_what_is_read", *_READ, module=facts),
    *_mutants("send_what_is_read", LOST_LABEL, module=rules_),
    *_mutants("send_what_is_read", _SENDERS, _BLOCKS, module=demand),
    *_mutants(
        "send_what_is_read",
        ("less than a block", "exchange_plan", "most >= x.operands[0].size", "False"),
        ("the receiver's place", "exchange_plan", "x.groups.place[sent.rank]", "sent.place"),
        ("the sender's place", "exchange_plan", "sent.place * most", "x.groups.place[sent.rank] * most"),
        ("my own behind what came", "exchange_plan", "g * most + own.offset", "own.offset"),
    ),
    *_mutants("permute_what_is_read", *_READ, module=facts),
    *_mutants("permute_what_is_read", _SENDERS, _BLOCKS, module=demand),
    *_mutants(
        "permute_what_is_read",
        ("one source", "permute_plan", " or not one_source", ""),
        ("one reader", "permute_plan", " or len(np.unique(senders)) < len(senders)", ""),
        ("somebody sends", "permute_plan", "not len(senders) or ", ""),
        ("my own behind what came", "permute_plan", "most + own.offset", "own.offset"),
        ("who sends nothing", "permute_plan", "demand.first_that(", "np.zeros_like("),
        (
            "from sender to reader",
            "_permuted",
            "plan.sources",
            "[plan.sources.index(r) if r in plan.sources else -1 for r in range(x.groups.ranks)]",
        ),
        ("the label stays", "_permuted", "x.label)", f"{NO_LABEL})"),
    ),
    *_mutants("scatter_what_is_read", *_READ, module=facts),
    *_mutants(
        "scatter_what_is_read",
        ("no more than there is", "scatter_plan", "not 0 < width <= x.size", "width == 0"),
        ("not nothing", "scatter_plan", "not 0 < width", "not 0 <= width"),
        ("the reader's place", "scatter_plan", "groups.place[rank] * most", "(rank % groups.size) * most"),
        ("the group's parts", "scatter_plan", "groups.group[rank] * width", "0 * rank"),
        ("a maximum stays one", "_scattered", ", x.attr.reduction)", ")"),
        ("the label stays", "_scattered", "x.label,", f"{NO_LABEL},"),
    ),
    *_mutants("narrow_groups", *_READ, module=facts),
    *_mutants("narrow_groups", LOST_LABEL, module=rules_),
    *_mutants("narrow_groups", _SENDERS, module=demand),
    *_mutants(
        "narrow_groups",
        ("of equal size", "components", " if len({len(part) for part in parts.values()}) == 1 else None", ""),
        ("connected both ways", "_least_connected", "np.minimum.at(label, sender, least)", "pass"),
        module=demand,
    ),
    *_mutants(
        "narrow_groups",
        ("more than one rank", "narrower_groups", "1 < narrow.size", "0 < narrow.size"),
        (
            "members in the narrow order",
            "_narrowed",
            "narrow.place[member]",
            "x.groups.place[member] % narrow.size",
        ),
    ),
    *_mutants(
        "packed_layout",
        ("fewer than the block's", "pack_plan", "most >= width", "False"),
        ("not none", "pack_plan", "not len(cell)", "False"),
        ("the first element is no zero", "_pieces", "m.sources >= 0", "m.sources > 0"),
        ("each member's layout", "_of_members", "if rows > 1 else", "if False else"),
        ("each member's block for me", "_of_members", "if blocks > 1 else 0", "if False else 0"),
        (
            "all of the group",
            "_of_members",
            "chosen = chosen[groups.array[:, 0]]",
            "chosen = chosen[: len(groups.members)]",
        ),
        ("from each member", "_of_members", "% groups.size * most", "% groups.size * (most - 1)"),
        (
            "casts and scales stay",
            "_packed",
            "rebuild(x, [_packed(x.operands[0], pack)])",
            "_packed(x.operands[0], pack)",
        ),
    ),
    *_mutants("packed_layout", LOST_LABEL, module=rules_),
)

TIERS = (
    *_mutants(
        "two_tiers",
        ("over the world", "rewrite", " if x.groups.is_world)", ")"),
        ("there are nodes", "rewrite", "if both is None", "if False"),
        ("a gather across first", "rewrite", "operand, across), node)", "operand, node), across)"),
        (
            "an exchange inside first",
            "rewrite",
            "operand, across.size, node.size",
            "operand, node.size, across.size",
        ),
        ("then by nodes", "rewrite", "inside, node.size, across.size", "inside, across.size, node.size"),
        ("padding", "_scattered", "padded(operand, node.size)", "operand"),
        ("padding goes", "_scattered", ", x.size)", ", total.size * node.size)"),
        ("a maximum stays one", "_scattered", "x.label, reduction)", "x.label)"),
        ("a maximum stays one in each tier", "_again", ", x.attr.reduction)", ")"),
        ("the label stays", "_again", "x.label,", f"{NO_LABEL},"),
    ),
    *_mutants(
        "ring",
        ("several ranks", "rewrite", "if x.groups.size > 1", "if True"),
        ("to the member d places on", "receiver_place", "place + distance", "place - distance"),
        ("from the member d places back", "sender", "place - distance", "place + distance"),
        (
            "members are ranks",
            "sender",
            "groups.array[groups.group, (groups.place - distance) % groups.size]",
            "(np.arange(groups.ranks) - distance) % groups.ranks",
        ),
        (
            "blocks in member order",
            "rotations",
            "groups.place[:, None] - np.arange(g)",
            "np.arange(g) - groups.place[:, None]",
        ),
        ("the label stays", "rotations", "x.label)", f"{NO_LABEL})"),
    ),
    *_mutants(
        "ring",
        ("handed on from the one before", "rotations", "make_permute(came[-1]", "make_permute(came[0]"),
        ("only a gather is handed on", "rewrite", "or sites[0].kind is not Kind.ALL_GATHER", ""),
    ),
    *_mutants(
        "permute_directly",
        ("one label", "_path", " and below.label == x.label", ""),
        ("of the class", "rewrite", "if first in known - {x}", "if first is not x"),
        (
            "from where it started",
            "_path",
            "np.array(below.sources)[sources]",
            "sources[np.array(below.sources)]",
        ),
        ("who receives nothing", "_path", "sources >= 0", "sources >= -1"),
        ("the label stays", "_direct", "x.label)", f"{NO_LABEL})"),
    ),
    *_mutants(
        "exchange_of_permutes",
        ("one value", "_of_one_value", "(_value(p), depths", "(sites[0].operands[0], depths"),
        ("one depth through the segments", "_of_one_value", "depths.node(p), ", ""),
        ("one label", "_of_one_value", ", p.label)", ")"),
        ("a layout of one value", "_value", "if len(sent.operands) == 1 else None", ""),
        ("several permutes", "_of_one_value", " and len(level) > 1", ""),
        ("several ranks", "exchange_plan", " or groups.size == 1", ""),
        ("end to end", "exchange_plan", "filled[of, to] += p.size", "filled[of, to] = p.size"),
        ("my own block is free", "exchange_plan", "np.diagonal(filled).any() or ", ""),
        (
            "no more than what goes to others",
            "exchange_plan",
            "not 0 < kept_most <= (groups.size - 1) * sent_most",
            "not kept_most",
        ),
        (
            "the receiver's block",
            "exchange_plan",
            "of * width + groups.place[to] * block",
            "of * width + groups.place[of] * block",
        ),
        ("the sender's block", "exchange_plan", "arrives = groups.place[of]", "arrives = groups.place[to]"),
        (
            "all that is kept",
            "_read_beside",
            "read_by(view, x, ranks) for view in views",
            "read_by(view, x, ranks) for view in views[:1]",
        ),
        ("the label stays", "_replaced", "permutes[0].label)", "type(permutes[0].label)())"),
    ),
    *_mutants(
        "exchange_of_permutes",
        (
            "groups of equal size",
            "components",
            " if len({len(part) for part in parts.values()}) == 1 else None",
            "",
        ),
        module=demand,
    ),
    *_mutants(
        "packed_layout",
        ("a permute's sender's layout", "pack_plan", "np.maximum(x.sources, 0)", "np.arange(len(x.sources))"),
        ("what lies there as it lies", "_alike", "if np.all(alike)", "if pack.size == span"),
        ("the label of a permute stays", "_unpacked", "x.sources, x.label)", f"x.sources, {NO_LABEL})"),
    ),
    *_mutants(
        "permute_what_is_read",
        ("only the idle", "_of_the_idle", "wanted.rank)", "other.rank)"),
    ),
    *_mutants(
        "wire_dtype",
        ("wider elements", "rewrite", " if x.dtype.bytes > wire.bytes", ""),
        ("the dtype comes back", "rewrite", ", x.dtype))", ", wire))"),
    ),
)

MUTANTS = (*LABELS, *BUCKETS, *FORMS, *FACTS, *TIERS)
