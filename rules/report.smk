# The page that people look at.


# One self-contained HTML page with figures, of all that a run found.
use rule light as report with:
    input:
        captured_calls=PIPELINE.captured,
        probes=f"{TREE}/probes.parquet",
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
        known_ways=of_problems("known_ways.parquet"),
        prices=of_problems("prices.parquet"),
        bench=of_problems("bench.parquet"),
        fidelities=of_problems("fidelity.parquet"),
        price_ablations=f"{TREE}/price_ablations.parquet",
        verdicts=of_problems("verdicts.parquet"),
        choice=of_problems("choice.parquet"),
        sketches=of_searches("sketches.parquet", problem=PIPELINE.settings.problems),
        candidates=of_searches("candidates.parquet", problem=PIPELINE.settings.problems),
        search_ends=of_searches(
            "search_ends.parquet", problem=PIPELINE.settings.problems
        ),
        calls=of_searches("calls.parquet", problem=PIPELINE.settings.problems),
        trials=every(
            f"{PROBLEM}/search/{{search}}/trials.parquet",
            problem=PIPELINE.settings.problems,
            search=PIPELINE.asking,
        ),
        steps=of_models("steps.parquet"),
        stamps=of_models("stamps.parquet"),
        confirmed=f"{TREE}/confirmed.parquet",
        confirmed_steps=f"{TREE}/confirmed_steps.parquet",
        confirmed_stamps=f"{TREE}/confirmed_stamps.parquet",
        deployed=f"{TREE}/deployed.parquet",
        splits=f"{TREE}/splits.parquet",
    output:
        page=report(
            f"{TREE}/report.html",
            caption="captions/report.rst",
            category="Report",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{LOGS}/report.log",
    params:
        **stage(
            "report",
            tree=lambda wildcards: f"results/{wildcards.deployment}",
            node_usd_per_hour=PIPELINE.price.usd_per_hour if PIPELINE.price else "",
        ),
    message:
        "Drawing the report of {wildcards.deployment}"
