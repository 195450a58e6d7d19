# What is timed, what is trained, what is chosen. After a checkpoint the plan is made anew.


def their_models(wildcards):
    """The models with one of these Problems at a site."""
    return PIPELINE.models_of(*together(wildcards))


def its_models(wildcards):
    """The models with the Problem at a site."""
    return PIPELINE.models_of(wildcards.problem)


# Proven Programs that are worth timing; without prices, so an equal list measures nothing anew.
checkpoint shortlist:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=of_searches("candidates.parquet"),
    output:
        **tables(PROBLEM, "shortlist"),
    log:
        f"{LOGS}/shortlist-{{problem}}.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        **stage(
            "shortlist",
            compared=RANKS_OF,
            settings=PIPELINE.settings.part("shortlist"),
        ),
    message:
        "Listing what is timed of {wildcards.problem}"
    shell:
        STAGE


# The best measured, the baselines beside them, and how right the prices were.
checkpoint finalists:
    input:
        known_ways=every(f"{PROBLEM}/known_ways.parquet", problem=together),
        shortlist=f"{PROBLEM}/shortlist.parquet",
        bench=f"{PROBLEM}/bench.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=of_searches("candidates.parquet"),
        probes=f"{TREE}/probes.parquet",
        theta=f"{TREE}/theta.parquet",
        beside=f"{TREE}/beside.parquet",
        segments=every(f"{TREE}/train/{{model}}/segments.parquet", model=its_models),
    output:
        **tables(PROBLEM, "finalists", "fidelity", "step_prices"),
    log:
        f"{LOGS}/finalists-{{problem}}.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        **stage(
            "finalists",
            trained_by=lambda wildcards: PIPELINE.trained_json(wildcards.problem),
            steps=lambda wildcards: PIPELINE.steps_json(*its_models(wildcards)),
        ),
    message:
        "Comparing predicted with measured times of {wildcards.problem}, and naming finalists"
    shell:
        STAGE


# What is to be deployed of a Problem: the plainest arm that no other beats beyond noise, of those that pass.
checkpoint choose:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        candidates=of_searches("candidates.parquet"),
        shortlist=every(f"{PROBLEM}/shortlist.parquet", problem=together),
        bench=every(f"{PROBLEM}/bench.parquet", problem=together),
        finalists=every(f"{PROBLEM}/finalists.parquet", problem=together),
        probes=f"{TREE}/probes.parquet",
        steps=every(f"{TREE}/train/{{model}}/steps.parquet", model=their_models),
        stamps=every(f"{TREE}/train/{{model}}/stamps.parquet", model=their_models),
    output:
        **tables(PROBLEM, "verdicts", "choice"),
        module=f"{PROBLEM}/chosen.py",
    log:
        f"{LOGS}/choose-{{problem}}.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        **stage(
            "choose",
            compared={
                "together": lambda wildcards: ",".join(together(wildcards)),
                **RANKS_OF,
            },
            trained_by=lambda wildcards: PIPELINE.trained_json(*together(wildcards)),
        ),
    message:
        "Choosing what is to be deployed of {wildcards.problem}"
    shell:
        STAGE
