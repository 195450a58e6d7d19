"""Planted mistakes in the rules that read facts: what is equal, what is live, who reads what."""

from overlayccl_core.program import facts, simplify
from overlayccl_core.rewrites import demand
from overlayccl_core.rewrites import rule as rules_
from tests.rewrites.mutant import LOST_LABEL, NO_LABEL, mutants_of

_READ = (
    ("an output is read in full", "reads", "x in program.outputs.values() or ", ""),
    ("what is no view reads all", "reads", " or any(u.kind is not Kind.VIEW for u in users[x])", ""),
    ("rows of zeros read nothing of a wider value", "read_by", "start[mine] - base", "start[mine]"),
)
_VALID = (
    ("what is not valid is read by others", "valid_of", "if users[x]:", "if False:"),
    ("an output of two ports", "valid_of", " and len(counts) == len(valid)", ""),
)
_SENDERS = ("members are ranks", "of_gather", "x.groups.array[x.groups.group[rank], place]", "place")
_BLOCKS = (
    "pieces are cut at blocks",
    "of_gather",
    "offset=start % block",
    "offset=start % max(block - 1, 1)",
)

FACTS = (
    *mutants_of(
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
    *mutants_of(
        "equal_copies",
        ("equal in this group", "equal_in_groups", "numbers == numbers[:, :1]", "numbers == numbers[:1]"),
        module=facts,
    ),
    *mutants_of("push_through_gather", LOST_LABEL, module=rules_),
    *mutants_of(
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
        ("no zeros in a maximum", "_reduced", "parts.has_zeros and reduction", "False and reduction"),
        ("a maximum stays one", "_reduced", "x.row.operation.reduction", "Reduction.SUM"),
        ("the label of a reduction stays", "_reduced", "parts.gather.label", "type(parts.gather.label)()"),
        ("equally many of each row", "_in_rows", "(filled != filled[0]).any()", "False"),
        ("equal ids", "_picked", "not equal_in_groups(ids, groups) or ", ""),
        ("ids count alike", "_picked", " or (first != first[:, :1]).any()", ""),
        ("ids count from my own", "_picked", " + lowest[groups.place]", ""),
    ),
    *mutants_of(
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
    *mutants_of("disjoint_support", LOST_LABEL, module=rules_),
    *mutants_of("send_what_is_read", *_READ, *_VALID, module=facts),
    *mutants_of("send_what_is_read", LOST_LABEL, module=rules_),
    *mutants_of("send_what_is_read", _SENDERS, _BLOCKS, module=demand),
    *mutants_of(
        "send_what_is_read",
        ("less than a block", "exchange_plan", "most >= x.operands[0].size", "False"),
        ("the receiver's place", "exchange_plan", "x.groups.place[sent.rank]", "sent.place"),
        ("the sender's place", "exchange_plan", "sent.place * most", "x.groups.place[sent.rank] * most"),
        ("my own behind what came", "exchange_plan", "g * most + own.offset", "own.offset"),
    ),
    *mutants_of("permute_what_is_read", *_READ, module=facts),
    *mutants_of("permute_what_is_read", _SENDERS, _BLOCKS, module=demand),
    *mutants_of(
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
    *mutants_of("scatter_what_is_read", *_READ, module=facts),
    *mutants_of(
        "scatter_what_is_read",
        ("no more than there is", "scatter_plan", "not 0 < width <= x.size", "width == 0"),
        ("the reader's place", "scatter_plan", "groups.place[rank] * most", "(rank % groups.size) * most"),
        ("the group's parts", "scatter_plan", "groups.group[rank] * width", "0 * rank"),
        ("a maximum stays one", "_scattered", ", x.attr.reduction)", ")"),
        ("the label stays", "_scattered", "x.label,", f"{NO_LABEL},"),
    ),
    *mutants_of("narrow_groups", *_READ, module=facts),
    *mutants_of("narrow_groups", LOST_LABEL, module=rules_),
    *mutants_of("narrow_groups", _SENDERS, module=demand),
    *mutants_of(
        "narrow_groups",
        ("of equal size", "components", " if len({len(part) for part in parts.values()}) == 1 else None", ""),
        ("connected both ways", "_least_connected", "np.minimum.at(label, sender, least)", "pass"),
        module=demand,
    ),
    *mutants_of(
        "narrow_groups",
        ("more than one rank", "narrower_groups", "1 < narrow.size", "0 < narrow.size"),
        (
            "members in the narrow order",
            "_narrowed",
            "narrow.place[member]",
            "x.groups.place[member] % narrow.size",
        ),
    ),
    *mutants_of(
        "packed_layout",
        ("fewer than the block's", "pack_plan", "most >= width", "False"),
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
    *mutants_of("packed_layout", LOST_LABEL, module=rules_),
)
