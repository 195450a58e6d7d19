# What is timed, what is trained, what is chosen. After a checkpoint the plan is made anew.


# Proven Programs that are worth timing; without prices, so an equal list measures nothing anew.
checkpoint shortlist:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=of_searches("candidates"),
    output:
        **tables(PROBLEM, "shortlist"),
    log:
        f"{LOGS}/shortlist-{{problem}}.log",
    benchmark:
        f"{LOGS}/shortlist-{{problem}}.tsv"
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
        known_ways=f"{PROBLEM}/known_ways.parquet",
        shortlist=f"{PROBLEM}/shortlist.parquet",
        bench=f"{PROBLEM}/bench.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=of_searches("candidates"),
        probes=f"{TREE}/probes.parquet",
    output:
        **tables(PROBLEM, "finalists", "fidelity"),
    log:
        f"{LOGS}/finalists-{{problem}}.log",
    benchmark:
        f"{LOGS}/finalists-{{problem}}.tsv"
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
        ),
    message:
        "Comparing predicted with measured times of {wildcards.problem}, and naming finalists"
    shell:
        STAGE


# What is to be deployed of a Problem: the plainest arm that no other beats beyond noise, of those that pass.
checkpoint choose:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        candidates=of_searches("candidates"),
        shortlist=chosen_with("shortlist"),
        bench=chosen_with("bench"),
        finalists=chosen_with("finalists"),
        probes=f"{TREE}/probes.parquet",
        steps=of_models("steps"),
        stamps=of_models("stamps"),
    output:
        **tables(PROBLEM, "verdicts", "choice"),
        module=f"{PROBLEM}/chosen.py",
    log:
        f"{LOGS}/choose-{{problem}}.log",
    benchmark:
        f"{LOGS}/choose-{{problem}}.tsv"
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
                "together": lambda wildcards: ",".join(
                    PIPELINE.chosen_with(wildcards.problem)
                ),
                **RANKS_OF,
            },
            trained_by=lambda wildcards: PIPELINE.trained_json(
                *PIPELINE.chosen_with(wildcards.problem)
            ),
        ),
    message:
        "Choosing what is to be deployed of {wildcards.problem}"
    shell:
        STAGE
