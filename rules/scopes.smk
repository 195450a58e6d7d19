# Is what is fastest alone also fastest in the step?  snakemake --profile local scopes
# A target of its own, in a folder of its own: no choice follows from it.

SCOPES = f"{TREE}/scopes"


rule scopes:
    """The Programs of trained arms in three scopes, as tables and a page."""
    input:
        lambda wildcards: of_jobs("time_scopes", "weigh_scopes"),


# Raw samples of what ran in steps, alone and while each rank multiplies matrices, from one launch.
use rule on_ranks as time_scopes with:
    input:
        finalists=of_problems("finalists.parquet"),
        stamps=of_models("stamps.parquet"),
    output:
        **tables(SCOPES, "scopes"),
    log:
        f"{SCOPES}/logs/time_scopes.log",
    params:
        **stage(
            "time_scopes",
            compared=MEASURED,
            settings=PIPELINE.settings.part("scopes"),
            partial=launches_below(SCOPES),
        ),
    message:
        "Timing what {wildcards.deployment} trained, alone and beside a running matmul"


# Times of arms in three scopes, and the pairs that are in another order than in the step.
use rule light as weigh_scopes with:
    input:
        scopes=f"{SCOPES}/scopes.parquet",
        steps=of_models("steps.parquet"),
        stamps=of_models("stamps.parquet"),
    output:
        **tables(SCOPES, "scoped_arms", "scope_orders"),
        page=report(
            f"{SCOPES}/scopes.html",
            caption="captions/scopes.rst",
            category="Scopes",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{SCOPES}/logs/weigh_scopes.log",
    params:
        **stage("weigh_scopes", name=lambda wildcards: wildcards.deployment),
    message:
        "Comparing the orders of arms of {wildcards.deployment} alone and in the step"
