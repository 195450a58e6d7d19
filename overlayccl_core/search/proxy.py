"""Large Cases: a small Case stands for one, is searched in its place, and what it found is replayed (full_size.py).

The small Case has the tiers of the large one with fewer ranks, so its Programs are priced, and held to what the
library can do, as if their groups had the sizes that the large one's have.
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
    """Whether a Case, whose developer's Program has so many nodes, is searched at a smaller one."""
    return nodes > limits.nodes or case.ranks >= limits.ranks


def pricing_as(small: Case, large: Case, theta: Theta) -> Pricing:
    """Prices of the small Case's Programs with the coefficients of the large one's groups."""
    sizes = {
        ("network", small.ranks): large.ranks,
        ("network", small.ranks // small.ranks_per_node): large.ranks // large.ranks_per_node,
        ("node", small.ranks_per_node): large.ranks_per_node,
    }

    def price(program: Program) -> Price:
        return price_features(with_sizes(features(program), sizes), theta)

    return price


def capabilities_as(small: Case, large: Case, capabilities: Capabilities) -> Capabilities:
    """What the library can do of the small Case, where its groups stand for the large one's."""
    large_permutes = permute_shapes(large.ranks * large.groups)
    permutes = permute_shapes(small.ranks * small.groups)
    return capabilities.of_shapes(
        groups=dict(zip(_shapes(small), _shapes(large), strict=True)),
        permutes={permutes[one]: large_permutes[one] for one in permutes if one in large_permutes},
    )


def _shapes(case: Case) -> tuple[Shape, ...]:
    """Of the groups across its nodes, within them, and of all its ranks."""
    across = (case.ranks // case.ranks_per_node, case.ranks_per_node * case.stride)
    return across, (case.ranks_per_node, case.stride), (case.ranks, case.stride)


def with_sizes(counted: Features, sizes: Mapping[tuple[str, int], int]) -> Features:
    """Features with the groups of each (reach, size) taken for groups of another size."""
    renamed: dict[Column, float] = {}
    for column, amount in counted.items():
        name = _REACH.sub(
            lambda m: f".{m[1]}{sizes.get((m[1], int(m[2])), int(m[2]))}.",
            column.name,
        )
        same = replace(column, name=name)
        renamed[same] = renamed.get(same, 0.0) + amount
    return renamed
