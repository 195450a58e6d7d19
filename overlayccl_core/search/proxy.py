"""Proxies of large Cases: a small Case is searched in a large one's place, and its finds replayed (full_size.py).

The small Case has the large one's tiers with fewer ranks. Its Programs are priced, and checked against the
library's capabilities, as if their groups had the large one's sizes.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from overlayccl_core.configuration.searches import Proxy
from overlayccl_core.costmodel.features import Column, Features, features
from overlayccl_core.costmodel.price import Price, price_features
from overlayccl_core.costmodel.theta import Theta
from overlayccl_core.deployments.capabilities import Capabilities, Shape, permute_shapes
from overlayccl_core.program.case import Case
from overlayccl_core.program.program import Program
from overlayccl_core.search.judge import Pricing

_REACH = re.compile(r"\.(node|network)(\d+)\.")


def is_large(case: Case, nodes: int, limits: Proxy) -> bool:
    """Return whether a Case is searched at a smaller one. nodes: of its developer's Program."""
    return nodes > limits.nodes or case.ranks >= limits.ranks


def pricing_as(small: Case, large: Case, theta: Theta) -> Pricing:
    """Price the small Case's Programs with the coefficients of the large one's groups."""
    sizes = {
        ("network", small.ranks): large.ranks,
        ("network", small.ranks // small.ranks_per_node): large.ranks // large.ranks_per_node,
        ("node", small.ranks_per_node): large.ranks_per_node,
    }

    def price(program: Program) -> Price:
        return price_features(with_sizes(features(program), sizes), theta)

    return price


def capabilities_as(small: Case, large: Case, capabilities: Capabilities) -> Capabilities:
    """Return the library's capabilities for the small Case, its groups standing for the large one's."""
    large_permutes = permute_shapes(large.ranks * large.groups)
    permutes = permute_shapes(small.ranks * small.groups)
    return capabilities.of_shapes(
        groups=dict(zip(_shapes(small), _shapes(large), strict=True)),
        permutes={permutes[one]: large_permutes[one] for one in permutes if one in large_permutes},
    )


def _shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shapes of groups across nodes, within nodes, and of all ranks."""
    across = (case.ranks // case.ranks_per_node, case.ranks_per_node * case.stride)
    return across, (case.ranks_per_node, case.stride), (case.ranks, case.stride)


def with_sizes(counted: Features, sizes: Mapping[tuple[str, int], int]) -> Features:
    """Return features with the groups of each (reach, size) taken for groups of another size."""
    renamed: dict[Column, float] = {}
    for column, amount in counted.items():
        name = _REACH.sub(lambda m: f".{m[1]}{sizes.get((m[1], int(m[2])), int(m[2]))}.", column.name)
        same = replace(column, name=name)
        renamed[same] = renamed.get(same, 0.0) + amount
    return renamed
