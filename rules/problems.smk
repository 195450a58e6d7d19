# What people know of each Problem, and what it should cost.


rule cases:
    """The Cases of a Problem."""
    output:
        cases="results/{deployment}/problems/{problem}/cases.parquet",
        sidecar="results/{deployment}/problems/{problem}/cases.sidecar.json",
    log:
        f"{LOGS}/cases-{{problem}}.log",
    benchmark:
        f"{LOGS}/cases-{{problem}}.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=500,
    params:
        code=code("cases"),
        cases=lambda wildcards: PIPELINE.cases_json(wildcards.problem),
        file=PIPELINE.deployment_file,
        settings=lambda wildcards: PIPELINE.settings_of(wildcards.problem),
    message:
        "Writing down the Cases of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.cases --deployment {params.file} --problem {wildcards.problem}"
        " --settings {params.settings:q} --outputs {output} --log {log}"


rule seed:
    """Every strategy of a Problem's library, traced and proven at every Case."""
    input:
        "results/{deployment}/problems/{problem}/cases.parquet",
        "results/{deployment}/capabilities.parquet",
    output:
        seeds="results/{deployment}/problems/{problem}/seeds.parquet",
        sidecar="results/{deployment}/problems/{problem}/seeds.sidecar.json",
    log:
        f"{LOGS}/seed-{{problem}}.log",
    benchmark:
        f"{LOGS}/seed-{{problem}}.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("seed"),
        deployment=PIPELINE.deployment_json,
        file=PIPELINE.deployment_file,
    message:
        "Tracing and proving the strategies of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.seed --deployment {params.file} --problem {wildcards.problem}"
        " --inputs {input} --outputs {output} --log {log}"


rule price:
    """What the cost model says of every seed, by term."""
    input:
        "results/{deployment}/problems/{problem}/seeds.parquet",
        "results/{deployment}/theta.parquet",
        "results/{deployment}/fidelity.parquet",
    output:
        prices="results/{deployment}/problems/{problem}/prices.parquet",
        sidecar="results/{deployment}/problems/{problem}/prices.sidecar.json",
    log:
        f"{LOGS}/price-{{problem}}.log",
    benchmark:
        f"{LOGS}/price-{{problem}}.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("price"),
        deployment=PIPELINE.deployment_json,
        file=PIPELINE.deployment_file,
    message:
        "Pricing the strategies of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.price --deployment {params.file} --problem {wildcards.problem}"
        " --inputs {input} --outputs {output} --log {log}"
