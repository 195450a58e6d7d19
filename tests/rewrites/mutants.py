"""Planted mistakes: one for every side condition of every rule."""

from overlayccl_core.rewrites import demand, joining
from overlayccl_core.rewrites import rule as rules_
from tests.rewrites.mutant import LOST_LABEL, NO_LABEL, mutants_of
from tests.rewrites.mutants_of_facts import FACTS

_SUMS = "if adds(x) and "
_SEVERAL = " and x.groups.size > 1"

LABELS = (
    *mutants_of(
        "drop_boundary", ("the issue order stays", "_of_no_graph", 'replace(x.label, graph="")', NO_LABEL)
    ),
    *mutants_of(
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
    *mutants_of(
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
        module=joining,
    ),
    *mutants_of(
        "merge",
        ("blocks are joined one by one", "_joined", "blocks_in(first)", "1"),
        ("blocks are cut one by one", "_joined", "blocks_out(first)", "1"),
        ("values in the bucket's order", "_joined", "for x in bucket]", "for x in bucket[::-1]]"),
        ("values end where the next begin", "_joined", "start += width", "start += max(width - 1, 1)"),
    ),
    *mutants_of(
        "coalesce",
        ("what one call does stays one", "_levels", "if not x.label.call", ""),
        ("V is one for all ranks", "_values", " and y.map.rows == 1", ""),
        ("V is no smaller", "_values", " <= y.size", " <= 2 * y.size"),
        ("values in the bucket's order", "_made_once", "for y in bucket]", "for y in bucket[::-1]]"),
        ("every value", "_made_once", "for y in bucket]", "for y in bucket[:1] * len(bucket)]"),
        (
            "the groups stay",
            "_made_once",
            "like.groups",
            "type(like.groups)(((*range(like.groups.ranks),),))",
        ),
        ("the label stays", "_made_once", "like.label", "type(like.label)()"),
        ("the reduction stays", "_made_once", ", like.attr.reduction", ""),
    ),
    *mutants_of(
        "coalesce",
        ("one reduction", "independent", _ALIKE, "(depths.node(x), x.attr.groups, x.label, x.dtype)"),
        ("one label", "independent", _ALIKE, "(depths.node(x), x.attr.groups, x.attr.reduction, x.dtype)"),
        module=joining,
    ),
    *mutants_of(
        "split",
        ("no empty part", "_parts", "if wanted <= operand.size // blocks_in(x) else 1", ""),
        ("equal parts", "_in_parts", "width * i // parts for i in range(parts + 1)", "*range(parts), width"),
        ("blocks are cut one by one", "_in_parts", "blocks_in(x)", "1"),
        ("blocks are joined one by one", "_in_parts", "blocks_out(x)", "1"),
        ("parts in order", "_in_parts", "in pairwise(cuts)", "in list(pairwise(cuts))[::-1]"),
    ),
)

FORMS = (
    *mutants_of(
        "reduce_scatter_all_gather",
        ("a sum", "rewrite", _SUMS, "if "),
        ("several ranks", "rewrite", _SEVERAL, ""),
        ("padding", "_by_shares", "padded(operand, x.groups.size)", "operand"),
        ("padding goes", "_by_shares", ", x.size)", ", share.size * x.groups.size)"),
    ),
    *mutants_of("reduce_scatter_all_gather", LOST_LABEL, module=rules_),
    *mutants_of(
        "gather_and_sum", ("a sum", "rewrite", _SUMS, "if "), ("several ranks", "rewrite", _SEVERAL, "")
    ),
    *mutants_of("gather_and_sum", LOST_LABEL, module=rules_),
    *mutants_of(
        "exchange_and_sum", ("a sum", "rewrite", _SUMS, "if "), ("several ranks", "rewrite", _SEVERAL, "")
    ),
    *mutants_of("exchange_and_sum", LOST_LABEL, module=rules_),
    *mutants_of(
        "exchange_of_copies",
        ("several ranks", "rewrite", "if x.groups.size > 1", "if True"),
        ("a copy for each", "_of_copies", "operand.size, x.groups.size", "operand.size, x.groups.size - 1"),
    ),
    *mutants_of("exchange_of_copies", LOST_LABEL, module=rules_),
    *mutants_of(
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
    *mutants_of("all_reduce_of_parts", LOST_LABEL, module=rules_),
    *mutants_of(
        "all_reduce_of_gather",
        ("a block from each member", "sums_over_members", " and total.count == x.groups.size", ""),
        LOST_LABEL,
        module=rules_,
    ),
    *mutants_of(
        "reduce_scatter_of_sum",
        ("a block from each member", "sums_over_members", " and total.count == x.groups.size", ""),
        LOST_LABEL,
        module=rules_,
    ),
    *mutants_of(
        "gather_of_copies",
        ("equal blocks", "_one_block", ' and folded[0] == "equal"', ""),
        ("as many as members", "_one_block", "fold(operand.map, x.groups.size)", "fold(operand.map, 2)"),
        ("a layout", "_one_block", "operand.kind is not Kind.VIEW or ", ""),
    ),
    *mutants_of("gather_of_copies", LOST_LABEL, module=rules_),
    *mutants_of(
        "one_reduction",
        ("one set of groups", "_between", "(x.groups, x.label)", "x.label"),
        ("one label", "_between", "(x.groups, x.label)", "x.groups"),
        ("sums", "_between", "x in sites and adds(x)", "x in sites"),
        ("of the class", "_between", "x in sites and adds(x)", "x.kind in KINDS and adds(x)"),
        ("one layout for all", "_between", "joined.map.rows > 1", "False"),
        (
            "smaller than before",
            "rewrite",
            "sum(x.size for x in together) < sum(x.size for x in reductions)",
            "True",
        ),
        (
            "read by nothing else",
            "rewrite",
            "node in written or not known.issuperset(users[node])",
            "False",
        ),
        ("ratios stay", "_summed_before", "make_scale(operand, part.ratio)", "operand"),
        ("each member's block", "_of_blocks", "block * np.asarray(sizes)[part]", "0 * block"),
        ("what stands before", "_of_blocks", "blocks * first +", "first +"),
    ),
)

TIERS = (
    *mutants_of(
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
    *mutants_of(
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
        ("the label stays", "rotations", "d).tolist(), x.label)", f"d).tolist(), {NO_LABEL})"),
        ("the label is handed on", "rotations", "1).tolist(), x.label)", f"1).tolist(), {NO_LABEL})"),
    ),
    *mutants_of(
        "ring",
        ("handed on from the one before", "rotations", "make_permute(came[-1]", "make_permute(came[0]"),
        ("only a gather is handed on", "rewrite", "or sites[0].kind is not Kind.ALL_GATHER", ""),
    ),
    *mutants_of(
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
    *mutants_of(
        "exchange_of_permutes",
        ("one value", "_of_one_value", "(_value(p), p.label)", "(sites[0].operands[0], p.label)"),
        ("one label", "_of_one_value", ", p.label)", ")"),
        ("a layout of one value", "_value", "if len(sent.operands) == 1 else None", ""),
        ("several permutes", "_of_one_value", " and len(level) > 1", ""),
        ("several ranks", "exchange_plan", " or groups.size == 1", ""),
        ("end to end", "exchange_plan", "filled[of, to] += p.size", "filled[of, to] = p.size"),
        ("my own block is free", "exchange_plan", "np.diagonal(filled).any() or ", ""),
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
    *mutants_of(
        "exchange_of_permutes",
        (
            "groups of equal size",
            "components",
            " if len({len(part) for part in parts.values()}) == 1 else None",
            "",
        ),
        module=demand,
    ),
    *mutants_of(
        "packed_layout",
        ("a permute's sender's layout", "pack_plan", "np.maximum(x.sources, 0)", "np.arange(len(x.sources))"),
        (
            "what lies there as it lies",
            "_alike",
            "((pack.sources < 0) | (pack.sources == place)).all()",
            "True",
        ),
        ("the label of a permute stays", "_unpacked", "x.sources, x.label)", f"x.sources, {NO_LABEL})"),
    ),
    *mutants_of(
        "permute_what_is_read",
        ("only the idle", "_of_the_idle", "wanted.rank)", "other.rank)"),
    ),
    *mutants_of(
        "wire_dtype",
        ("wider elements", "rewrite", " if x.dtype.bytes > wire.bytes", ""),
        ("the dtype comes back", "rewrite", ", x.dtype))", ", wire))"),
    ),
)

MUTANTS = (*LABELS, *BUCKETS, *FORMS, *FACTS, *TIERS)
