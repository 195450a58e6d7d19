# Many steps of what was chosen and of what stands beside it, for their losses:  snakemake --profile local longrun
# A target of its own, in a folder of its own: `all` asks for none of it.

LONGRUN = f"{TREE}/longrun"


def long_models(_wildcards):
    """Every model, of which one is needed."""
    return PIPELINE.long_models


rule longrun:
    """The losses of all configured models."""
    input:
        lambda wildcards: of_jobs("longtrain", "losses"),


# Many steps of the arms of a model at the M that is deployed, each in launches of its own.
use rule on_ranks as longtrain with:
    input:
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=of_the_model),
        choice=every(f"{PROBLEM}/choice.parquet", problem=of_the_model),
        chosen=every(f"{PROBLEM}/chosen.py", problem=of_the_model),
        steps=f"{TREE}/train/{{model}}/steps.parquet",
        stamps=f"{TREE}/train/{{model}}/stamps.parquet",
    output:
        **tables(f"{LONGRUN}/{{model}}", "long_steps", "long_stamps"),
    log:
        f"{LONGRUN}/logs/longtrain-{{model}}.log",
    benchmark:
        f"{LONGRUN}/logs/longtrain-{{model}}.tsv"
    params:
        **stage(
            "longtrain",
            compared={
                "fields": lambda wildcards: PIPELINE.long_model_json(wildcards.model),
                **MEASURED,
            },
            problems=lambda wildcards: ",".join(of_the_model(wildcards)),
            settings=PIPELINE.settings.part("longrun"),
            partial=launches_below(LONGRUN),
        ),
    message:
        "Training {wildcards.model} for many steps"


# The losses of all models' arms in one table, and whether they train as the developer's do.
use rule light as losses with:
    input:
        long_steps=every(f"{LONGRUN}/{{model}}/long_steps.parquet", model=long_models),
        long_stamps=every(f"{LONGRUN}/{{model}}/long_stamps.parquet", model=long_models),
        finalists=of_problems("finalists.parquet"),
        choice=of_problems("choice.parquet"),
    output:
        **tables(LONGRUN, "losses", "curves"),
    log:
        f"{LONGRUN}/logs/losses.log",
    benchmark:
        f"{LONGRUN}/logs/losses.tsv"
    params:
        **stage("losses", problems=",".join(PIPELINE.settings.problems)),
    message:
        "Comparing the losses of {wildcards.deployment}"
