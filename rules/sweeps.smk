# Two sweeps, each a target of its own in a folder of its own; no choice follows from them.
# In how many microbatches is a step the fastest?     snakemake --profile local sweep_m --config preset=sweep-m
# At which payloads is a known way faster than the library's own call?   snakemake --profile local sweep_payload

SWEEP_M = f"{TREE}/sweep_m"
SWEEP_PAYLOAD = f"{TREE}/sweep_payload"
SWEPT = tables(f"{SWEEP_M}/{{model}}", "swept_steps", "swept_stamps")


def swept_models(_wildcards):
    """Every model that has several numbers of microbatches, of which one is needed."""
    return PIPELINE.swept_models


rule sweep_m:
    """Steps of all models by their number of microbatches, as tables and a page."""
    input:
        *(
            every(path, deployment=PIPELINE.settings.tree, model=swept_models)
            for path in SWEPT.values()
        ),
        lambda wildcards: of_jobs("weigh_splits"),


rule sweep_payload:
    """Known ways by payload, as tables and a page."""
    input:
        lambda wildcards: of_jobs("time_payloads", "weigh_payloads"),


# Steps of a model's arms at all its numbers of microbatches, in launches that choose nothing.
use rule on_ranks as train_splits with:
    input:
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=of_the_model),
    output:
        **SWEPT,
    log:
        f"{SWEEP_M}/logs/train_splits-{{model}}.log",
    params:
        **stage(
            "train_splits",
            compared={
                "fields": lambda wildcards: PIPELINE.model_json(wildcards.model),
                **MEASURED,
            },
            problems=lambda wildcards: ",".join(of_the_model(wildcards)),
            settings=PIPELINE.settings.part("sweep_m"),
            partial=launches_below(SWEEP_M),
        ),
    message:
        "Training {wildcards.model} at each of its numbers of microbatches"


# Which number of microbatches is the best, and over what.
use rule light as weigh_splits with:
    input:
        swept_steps=every(SWEPT["swept_steps"], model=swept_models),
        swept_stamps=every(SWEPT["swept_stamps"], model=swept_models),
    output:
        **tables(SWEEP_M, "swept_splits"),
        page=report(
            f"{SWEEP_M}/sweep_m.html",
            caption="captions/sweep_m.rst",
            category="Sweeps",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{SWEEP_M}/logs/weigh_splits.log",
    params:
        **stage("weigh_splits", name=lambda wildcards: wildcards.deployment),
    message:
        "Comparing numbers of microbatches on {wildcards.deployment}"


# Raw samples of all proven ways at all payloads, in several launches.
use rule on_ranks as time_payloads with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(SWEEP_PAYLOAD, "timed_payloads"),
    log:
        f"{SWEEP_PAYLOAD}/logs/time_payloads.log",
    params:
        **stage(
            "time_payloads",
            compared=MEASURED,
            settings=lambda _wildcards: PIPELINE.swept_payloads,
            partial=launches_below(SWEEP_PAYLOAD),
        ),
    message:
        "Timing known ways at all payloads on {wildcards.deployment}"


# What is fastest at each payload, and whether it beats the library's own call.
use rule light as weigh_payloads with:
    input:
        timed_payloads=f"{SWEEP_PAYLOAD}/timed_payloads.parquet",
    output:
        **tables(SWEEP_PAYLOAD, "payload_times"),
        page=report(
            f"{SWEEP_PAYLOAD}/sweep_payload.html",
            caption="captions/sweep_payload.rst",
            category="Sweeps",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{SWEEP_PAYLOAD}/logs/weigh_payloads.log",
    params:
        **stage("weigh_payloads", name=lambda wildcards: wildcards.deployment),
    message:
        "Comparing known ways by payload on {wildcards.deployment}"
