# Real training steps: the finalists beside every baseline, on the machine alone.


# Times of a model's segments, in steps without any call.
use rule on_ranks as segments with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(f"{TREE}/train/{{model}}", "segments"),
    log:
        f"{LOGS}/segments-{{model}}.log",
    params:
        **stage(
            "segments",
            compared={
                "fields": lambda wildcards: PIPELINE.model_json(wildcards.model),
                **MEASURED,
            },
            partial=launches_below(),
        ),
    message:
        "Timing the segments of {wildcards.model}"


# Steps of all arms of a model, several launches, and what ran at its sites.
use rule on_ranks as train with:
    input:
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=of_the_model),
    output:
        **tables(f"{TREE}/train/{{model}}", "steps", "stamps"),
    log:
        f"{LOGS}/train-{{model}}.log",
    params:
        **stage(
            "train",
            compared={
                "fields": lambda wildcards: PIPELINE.model_json(wildcards.model),
                **MEASURED,
            },
            problems=lambda wildcards: ",".join(of_the_model(wildcards)),
            settings=PIPELINE.settings.part("train"),
            partial=launches_below(),
        ),
    message:
        "Training {wildcards.model} in all ways that are compared"


# What the prices of a model's steps say, and what was measured.
use rule light as step_fidelity with:
    input:
        segments=f"{TREE}/train/{{model}}/segments.parquet",
        theta=f"{TREE}/theta.parquet",
        beside=f"{TREE}/beside.parquet",
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=of_the_model),
        steps=f"{TREE}/train/{{model}}/steps.parquet",
        stamps=f"{TREE}/train/{{model}}/stamps.parquet",
    output:
        **tables(f"{TREE}/train/{{model}}", "arm_prices", "step_fidelity"),
    log:
        f"{LOGS}/step_fidelity-{{model}}.log",
    params:
        **stage(
            "step_fidelity",
            steps=lambda wildcards: PIPELINE.steps_json(wildcards.model),
        ),
    message:
        "Comparing prices of steps with measured ones of {wildcards.model}"
