# Where does the gain come from?  snakemake --profile local decompose
# A target of its own, in a folder of its own: the gain of what is deployed, in parts; no choice follows from it.

DECOMPOSE = f"{TREE}/decompose"


rule decompose:
    """The gain of every model over the developer's calls, split into factors."""
    input:
        lambda wildcards: of_jobs("find_parts", "time_parts", "weigh_parts"),


# The developer's Programs with some of the factors in which the deployed ones differ, proven.
use rule light as find_parts with:
    input:
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=of_the_model),
        choice=every(f"{PROBLEM}/choice.parquet", problem=of_the_model),
        chosen=every(f"{PROBLEM}/chosen.py", problem=of_the_model),
        sketches=every(
            f"{PROBLEM}/search/{{search}}/sketches.parquet",
            problem=of_the_model,
            search=PIPELINE.searches,
        ),
        deployed=f"{TREE}/deployed.parquet",
        splits=f"{TREE}/splits.parquet",
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(f"{DECOMPOSE}/{{model}}", "part_arms"),
    log:
        f"{DECOMPOSE}/logs/find_parts-{{model}}.log",
    params:
        **stage(
            "find_parts",
            compared={
                "fields": lambda wildcards: PIPELINE.model_json(wildcards.model),
                **DEPLOYMENT,
            },
            problems=lambda wildcards: ",".join(of_the_model(wildcards)),
        ),
    message:
        "Finding the steps from the developer's calls to those deployed in {wildcards.model}"


# All of these arms in training steps, in as many launches as a narrow interval of the whole gain takes.
use rule on_ranks as time_parts with:
    input:
        part_arms=f"{DECOMPOSE}/{{model}}/part_arms.parquet",
    output:
        **tables(f"{DECOMPOSE}/{{model}}", "part_steps", "part_stamps"),
    log:
        f"{DECOMPOSE}/logs/time_parts-{{model}}.log",
    params:
        **stage(
            "time_parts",
            compared={
                "fields": lambda wildcards: PIPELINE.model_json(wildcards.model),
                **MEASURED,
            },
            settings=PIPELINE.settings.part("decompose"),
            partial=launches_below(DECOMPOSE),
        ),
    message:
        "Training {wildcards.model} with some of what is deployed"


# What each factor gives, of all models.
use rule light as weigh_parts with:
    input:
        splits=f"{TREE}/splits.parquet",
        part_arms=every(
            f"{DECOMPOSE}/{{model}}/part_arms.parquet", model=PIPELINE.settings.models
        ),
        part_steps=every(
            f"{DECOMPOSE}/{{model}}/part_steps.parquet",
            model=PIPELINE.settings.models,
        ),
        part_stamps=every(
            f"{DECOMPOSE}/{{model}}/part_stamps.parquet",
            model=PIPELINE.settings.models,
        ),
    output:
        **tables(DECOMPOSE, "parts"),
        page=report(
            f"{DECOMPOSE}/parts.html",
            caption="captions/decompose.rst",
            category="Where the gain comes from",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{DECOMPOSE}/logs/weigh_parts.log",
    params:
        **stage(
            "weigh_parts",
            settings=PIPELINE.settings.part("decompose"),
            name=lambda wildcards: wildcards.deployment,
        ),
    message:
        "Splitting the gains of {wildcards.deployment} into parts"
