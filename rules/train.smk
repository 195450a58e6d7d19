# Real training steps: the finalists beside every baseline, on the machine alone.


# Steps of all arms of a model, several launches, and what ran at its sites.
use rule on_ranks as train with:
    input:
        finalists=lambda wildcards: of_model(wildcards, "finalists"),
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
            problems=lambda wildcards: ",".join(
                PIPELINE.problems_of_model(wildcards.model)
            ),
            settings=PIPELINE.settings.part("train"),
            partial=launches_below(),
        ),
    message:
        "Training {wildcards.model} in all ways that are compared"
