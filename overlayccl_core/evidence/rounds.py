"""Whether what was timed got as many rounds as the configuration asks for."""

import polars as pl


def too_few_rounds(fidelity: pl.DataFrame, *, of_probe: int, of_bench: int) -> str:
    """A sentence on the measurements with fewer rounds than their floor; empty: there are none.

    fidelity: rows of the held-out Programs and of the Problems. of_probe, of_bench: the floors.
    """
    held_out = pl.col("problem").is_null()
    fewest = (
        fidelity.select(
            of=pl.when(held_out).then(pl.lit("probe")).otherwise("bench of " + pl.col("problem")),
            seconds=pl.when(held_out).then(pl.lit("probe.seconds")).otherwise(pl.lit("bench.seconds")),
            floor=pl.when(held_out).then(of_probe).otherwise(of_bench),
            rounds="rounds",
        )
        .group_by("of", "seconds", "floor", maintain_order=True)
        .min()
        .filter(pl.col("rounds") < pl.col("floor"))
    )
    if fewest.is_empty():
        return ""
    found = ", ".join(
        f"{row['of']} {row['rounds']} of {row['floor']}" for row in fewest.iter_rows(named=True)
    )
    settings = " and ".join(fewest["seconds"].unique(maintain_order=True))
    return (
        f"Fewer rounds than there should be: {found}. Give more {settings} before you rely on these figures."
    )
