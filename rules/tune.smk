# Which proven way of a call is the fastest, and who finds it in the fewest seconds?  snakemake --profile local tune
# A target of its own, in a folder of its own: `overlayccl run --ways results/<tree>/tune` makes a script's calls so.

TUNE = f"{TREE}/tune"
# With a captured step its calls, else those of `tune.calls`: no other Problem's Cases.
TUNED = PIPELINE.settings.of_problem("captured").part("cases", "tune")


rule tune:
    """All ways timed, tuners side by side as tables and a page, and a folder of the best ways."""
    input:
        lambda wildcards: of_jobs("time_ways", "weigh_tuners"),


# Raw samples of all proven ways of each call, in rounds of one launch.
use rule on_ranks as time_ways with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(TUNE, "timed_ways"),
    log:
        f"{TUNE}/logs/time_ways.log",
    params:
        **stage(
            "time_ways",
            compared=MEASURED,
            settings=TUNED,
            partial=launches_below(TUNE),
        ),
    message:
        "Timing all proven ways of single calls on {wildcards.deployment}"


# Regret of five tuners by measured seconds, what family and parts are worth, and the best way of each call.
use rule light as weigh_tuners with:
    input:
        timed_ways=f"{TUNE}/timed_ways.parquet",
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
    output:
        **tables(TUNE, "tuner_curves", "tuned_calls"),
        page=report(
            f"{TUNE}/tune.html",
            caption="captions/tune.rst",
            category="Tuners",
            labels={"deployment": "{deployment}"},
        ),
        module=f"{TUNE}/captured.py",
        ways=f"{TUNE}/ways.json",
        found=f"{TUNE}/tuned-0.json",
    log:
        f"{TUNE}/logs/weigh_tuners.log",
    params:
        **stage(
            "weigh_tuners",
            compared=RANKS_OF,
            settings=TUNED,
            name=lambda wildcards: wildcards.deployment,
        ),
    message:
        "Comparing tuners on {wildcards.deployment}"
