# Real training steps: the finalists beside every baseline, on the machine alone.


# Times of a model's segments, in steps without any call.
use rule on_ranks as time_segments with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(f"{TREE}/train/{{model}}", "segments"),
    log:
        f"{LOGS}/time_segments-{{model}}.log",
    benchmark:
        f"{LOGS}/time_segments-{{model}}.tsv"
    params:
        **stage(
            "time_segments",
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
    benchmark:
        f"{LOGS}/train-{{model}}.tsv"
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
