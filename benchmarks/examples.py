"""The examples of every Problem as Cases, at the sizes of clusters."""

from overlayccl_core import catalog, loader
from overlayccl_core.program.case import Case

NODES = {2: 1, 3: 1, 4: 2, 8: 2, 32: 1, 96: 3, 160: 5, 224: 7}  # ranks: how many nodes they are spread over
RANKS = 224
PROBLEMS = loader.names("problems")


def example(problem: str, name: str = "train", *, ranks: int = RANKS, dtype: str = "bfloat16") -> Case:
    """An example of a Problem at so many ranks of NODES. ValueError where it does not fit them."""
    entry = catalog.plug_in(problem).examples(ranks)[name]
    return catalog.case(problem, entry, ranks=ranks, ranks_per_node=ranks // NODES[ranks], dtype=dtype)
