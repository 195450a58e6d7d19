# A language model chooses what is timed to learn the deployment:  snakemake --profile local probing --config proposer=claude
# A target of its own, in a folder of its own: `all` asks for none of it, and its cost model is that of the sweep.

CHOOSING = f"{TREE}/probing"


def choosers(_wildcards):
    """Every search that asks, of which one is needed."""
    return PIPELINE.choosers


rule probing:
    """How good the cost model becomes of what a model chose, beside the sweep, as a table and a page."""
    input:
        lambda wildcards: of_jobs("ask_probes", search=PIPELINE.asking),
        lambda wildcards: of_jobs("time_probes", "weigh_probes", "probing_page"),


# What a model ordered, what was measured of it, and every question to it.
use rule on_ranks as ask_probes with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(
            f"{CHOOSING}/{{search}}", "asked_probes", "chosen_probes", "probe_calls"
        ),
    log:
        f"{CHOOSING}/logs/ask_probes-{{search}}.log",
    resources:
        **RANKS,
        llm=1,
    params:
        **stage(
            "ask_probes",
            compared={**MEASURED, **DEPLOYMENT},
            search=lambda wildcards: PIPELINE.search_json(wildcards.search),
            settings=PIPELINE.settings.part(
                "probe", "heldout_seed", "fit", "probing", "asking"
            ),
            partial=launches_below(f"{CHOOSING}/{{search}}"),
            answers=lambda wildcards: CHOOSING.format(**wildcards)
            + f"/{wildcards.search}/answers",
            tree=lambda wildcards: f"results/{wildcards.deployment}",
        ),
    message:
        "Letting {wildcards.search} choose probes on {wildcards.deployment}"


# Raw samples of the sweep, the held-out Programs and all that was chosen, from one launch.
use rule on_ranks as time_probes with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
        chosen_probes=every(
            f"{CHOOSING}/{{search}}/chosen_probes.parquet", search=choosers
        ),
    output:
        **tables(CHOOSING, "compared_probes"),
    log:
        f"{CHOOSING}/logs/time_probes.log",
    params:
        **stage(
            "time_probes",
            compared=MEASURED,
            settings=PIPELINE.settings.part("probe", "heldout_seed", "probing"),
            partial=launches_below(CHOOSING),
        ),
    message:
        "Timing the sweep and what models chose on {wildcards.deployment}"


# Cost models of what was chosen, of the sweep and of as much of it, judged on held-out Programs.
use rule light as weigh_probes with:
    input:
        asked_probes=every(
            f"{CHOOSING}/{{search}}/asked_probes.parquet", search=choosers
        ),
        probe_calls=every(f"{CHOOSING}/{{search}}/probe_calls.parquet", search=choosers),
        compared_probes=f"{CHOOSING}/compared_probes.parquet",
    output:
        **tables(CHOOSING, "probing"),
    log:
        f"{CHOOSING}/logs/weigh_probes.log",
    params:
        **stage("weigh_probes", settings=PIPELINE.settings.part("fit", "probing")),
    message:
        "Weighing the probes that models chose on {wildcards.deployment}"


# One self-contained HTML page with the table.
use rule light as probing_page with:
    input:
        probing=f"{CHOOSING}/probing.parquet",
    output:
        page=report(
            f"{CHOOSING}/probing.html",
            caption="captions/probing.rst",
            category="Probes",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{CHOOSING}/logs/probing_page.log",
    params:
        **stage("probing_page", name=lambda wildcards: wildcards.deployment),
    message:
        "Drawing the probes that models chose on {wildcards.deployment}"
