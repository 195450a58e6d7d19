"""What the search finds from the developer's strategy alone, against what it finds from all seeds.

On the coefficients of a finished run: `python -m benchmarks.from_developer [results/local]`. The search is to end
within 2% by itself, since a new Problem has no library of seeds to begin with.
"""

import sys
import time
from pathlib import Path

import polars as pl

from overlayccl_core import catalog
from overlayccl_core.configuration import searches
from overlayccl_core.configuration.deployment import load
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.stages.search import Deployed, searched
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.seeds import SEEDS
from overlayccl_core.tables.table import read
from overlayccl_core.tables.theta import THETA

LIMIT = 0.02


def report(tree: Path = Path("results/local")) -> list[str]:
    """One line for each Case and direction, and whether all are within the limit."""
    here = Deployed(
        theta=theta_of(read(THETA, tree / "theta.parquet"), read(FIDELITY, tree / "fidelity.parquet")),
        capabilities=Capabilities.from_rows(
            read(CAPABILITIES, tree / "capabilities.parquet").iter_rows(named=True)
        ),
        memory_budget_bytes=load(Path("config/deployments/local.yaml")).memory_budget_bytes,
    )
    lines = ["predicted us: cheapest from all seeds, from developer alone, above (limit 2%)"]
    worst = 0.0
    for problem in sorted(path.name for path in (tree / "problems").iterdir()):
        for where, all_seeds, alone in compared(tree / "problems" / problem, here):
            worst = max(worst, alone / all_seeds - 1)
            lines.append(f"  {where:46s} {all_seeds:10.0f} {alone:10.0f}  {alone / all_seeds - 1:+.1%}")
    return [*lines, f"worst: {worst:.1%}: {'within' if worst <= LIMIT else 'ABOVE'} the limit"]


def compared(folder: Path, here: Deployed) -> list[tuple[str, float, float]]:
    """(Case and direction, cheapest of the run's candidates, cheapest from the developer alone) in us."""
    seeds, cases = read(SEEDS, folder / "seeds.parquet"), read(CASES, folder / "cases.parquet")
    known = pl.concat([read(CANDIDATES, path) for path in folder.glob("search/*/candidates.parquet")])
    priced = []
    for case in map(catalog.case_from_row, cases.iter_rows(named=True)):
        for problem in catalog.directions(case):
            at = (pl.col("case") == case.id) & (pl.col("direction") == problem.direction.value)
            alone = list(seeds.filter(at & (pl.col("role") == "developer")).iter_rows(named=True))
            tables = dict(
                searched(problem, alone, searches.load("offline"), here, time.monotonic, lambda _text: None)
            )
            if "candidates" in tables:
                mine = pl.DataFrame(tables["candidates"], infer_schema_length=None)
                where = f"{case.id} {problem.direction.value}"
                priced.append((where, cheapest(known.filter(at)), cheapest(mine)))
    return priced


def cheapest(candidates: pl.DataFrame) -> float:
    """The lowest price of a proven Program that loses no bits, in us."""
    proven = candidates.filter((pl.col("equivalence") == "pass") & (pl.col("numerics") != "lossy"))
    return float(proven["predicted_us"].min())  # type: ignore[arg-type]


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1] if len(sys.argv) > 1 else "results/local"))))
