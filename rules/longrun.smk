# Many steps of what was chosen and of what stands beside it, for their losses:  snakemake --profile local longrun
# A target of its own, in a folder of its own: `all` asks for none of it, and it asks of `all` for what its models need
# up to the choice. --config longrun_models=NAME,...: some of the models of a tree.

LONGRUN = f"{TREE}/longrun"


def long_models(_wildcards):
    """The models that are trained, of which one is needed."""
    return PIPELINE.long_models


def long_problems(_wildcards):
    """The Problems at their sites, each once."""
    named = map(PIPELINE.problems_of_model, PIPELINE.long_models)
    return dict.fromkeys(problem for problems in named for problem in problems)


rule longrun:
    """The losses of these models, as tables and a page."""
    input:
        lambda wildcards: of_jobs(
            "longtrain", "losses", model=every("{model}", model=long_models)({})
        ),


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
    params:
        **stage(
            "longtrain",
            compared={
                "fields": lambda wildcards: PIPELINE.long_model_json(wildcards.model),
                **MEASURED,
            },
            problems=lambda wildcards: ",".join(of_the_model(wildcards)),
            settings=PIPELINE.settings.longrun.of_a_model,
            partial=launches_below(LONGRUN),
        ),
    message:
        "Training {wildcards.model} for many steps"


# The losses of these models' arms in one table, whether they train as the developer's do, and a page of the curves.
use rule light as losses with:
    input:
        long_steps=every(f"{LONGRUN}/{{model}}/long_steps.parquet", model=long_models),
        long_stamps=every(f"{LONGRUN}/{{model}}/long_stamps.parquet", model=long_models),
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=long_problems),
        choice=every(f"{PROBLEM}/choice.parquet", problem=long_problems),
    output:
        **tables(LONGRUN, "losses", "curves"),
        page=report(
            f"{LONGRUN}/curves.html",
            caption="captions/longrun.rst",
            category="Losses",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{LONGRUN}/logs/losses.log",
    params:
        **stage(
            "losses",
            problems=lambda wildcards: ",".join(long_problems(wildcards)),
            name=lambda wildcards: wildcards.deployment,
        ),
    message:
        "Comparing the losses of {wildcards.deployment}"
