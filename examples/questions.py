"""Three questions to a run, with polars alone: nothing of OverlayCCL is imported.

    python examples/questions.py results/local

Each column is told in docs/tables.md. The same in SQL: examples/questions.sql.
"""

import sys
from pathlib import Path

import polars as pl

PROGRAM = ["case", "direction", "program"]  # what is timed and priced; a Program may be several strategies
PROBLEM = pl.col("case").str.split("/").list.first()


def worth(tree: Path) -> pl.DataFrame:
    """What is deployed in each model, and how many times as fast it is as what else was timed after the choice?"""
    splits = pl.read_parquet(tree / "splits.parquet")
    return (
        splits.filter(pl.col("part") != "deployed")
        .select(
            "model",
            "microbatches",
            "arm",
            "part",
            "deployed_speedup",
            "deployed_speedup_low",
            "deployed_speedup_high",
        )
        .sort("model", "deployed_speedup")
    )


def rightness(tree: Path) -> pl.DataFrame:
    """How far are the prices of the library's strategies from what was measured, for each Problem?"""
    median = pl.col("samples_us").list.median()
    bench = pl.read_parquet(tree / "problems/*/bench.parquet")
    prices = pl.read_parquet(tree / "problems/*/prices.parquet").unique(PROGRAM)
    both = bench.filter(status="timed").join(prices, on=PROGRAM)
    error = (pl.col("predicted_us") / median - 1).abs()
    return (
        both.group_by(problem=PROBLEM)
        .agg(programs=pl.struct(PROGRAM).n_unique(), median_error=error.median(), worst_error=error.max())
        .sort("problem")
    )


def calm(tree: Path) -> pl.DataFrame:
    """How calm was the machine: the CPU that others took in each launch, and by how much is a time wrong?

    Half of what its even and its odd rounds differ by: that is the noise of all of them. Launches are counted anew
    for the probes and for the bench of each Problem.
    """
    even, odd = (pl.col("samples_us").list.gather_every(2, k).list.median() for k in (0, 1))
    probes = pl.read_parquet(tree / "probes.parquet").select(pl.lit("probes").alias("of"), pl.all())
    bench = pl.read_parquet(tree / "problems/*/bench.parquet").select(PROBLEM.alias("of"), pl.all())
    return (
        pl.concat([probes, bench], how="diagonal")
        .filter(pl.col("samples_us").list.len() > 1)
        .group_by("of", "launch")
        .agg(
            programs=pl.struct(PROGRAM).n_unique(),
            foreign_cpu_share=pl.col("foreign_cpu_share").max(),
            repeat_error=(even / odd - 1).abs().median() / 2,
        )
        .sort("of", "launch")
    )


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    with pl.Config(tbl_rows=-1, tbl_width_chars=120, tbl_hide_dataframe_shape=True):
        for question in (worth, rightness, calm):
            print((question.__doc__ or "").partition("\n")[0])
            print(question(Path(folder)))
