# What is timed, what is trained, what is chosen.


checkpoint shortlist:
    """Proven Programs that are worth timing; without prices, so an equal list measures nothing anew."""
    input:
        "results/{deployment}/problems/{problem}/seeds.parquet",
        "results/{deployment}/problems/{problem}/prices.parquet",
        of_searches("candidates"),
    output:
        shortlist="results/{deployment}/problems/{problem}/shortlist.parquet",
        sidecar="results/{deployment}/problems/{problem}/shortlist.sidecar.json",
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
        code=code("shortlist"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        settings=PIPELINE.settings.part("shortlist"),
    message:
        "Listing what is timed of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.shortlist --deployment {params.file} --problem {wildcards.problem}"
        " --settings {params.settings:q} --inputs {input} --outputs {output} --log {log}"


checkpoint finalists:
    """The best measured, the baselines beside them, and how right the prices were."""
    input:
        "results/{deployment}/problems/{problem}/seeds.parquet",
        "results/{deployment}/problems/{problem}/shortlist.parquet",
        "results/{deployment}/problems/{problem}/bench.parquet",
        "results/{deployment}/problems/{problem}/prices.parquet",
        of_searches("candidates"),
        "results/{deployment}/probes.parquet",
    output:
        finalists="results/{deployment}/problems/{problem}/finalists.parquet",
        finalists_sidecar="results/{deployment}/problems/{problem}/finalists.sidecar.json",
        fidelity="results/{deployment}/problems/{problem}/fidelity.parquet",
        fidelity_sidecar="results/{deployment}/problems/{problem}/fidelity.sidecar.json",
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
        code=code("finalists"),
        trained=lambda wildcards: PIPELINE.trained_json(wildcards.problem),
    message:
        "Comparing predicted with measured times of {wildcards.problem}, and naming finalists"
    shell:
        "python -P -m workflow_scripts.finalists --problem {wildcards.problem} --trained {params.trained:q}"
        " --inputs {input} --outputs {output} --log {log}"


checkpoint choose:
    """What is to be deployed of a Problem: the plainest arm that no other beats beyond noise, of those that pass."""
    input:
        "results/{deployment}/problems/{problem}/seeds.parquet",
        of_searches("candidates"),
        chosen_with("shortlist"),
        chosen_with("bench"),
        chosen_with("finalists"),
        "results/{deployment}/probes.parquet",
        of_models("steps"),
        of_models("stamps"),
    output:
        verdicts="results/{deployment}/problems/{problem}/verdicts.parquet",
        verdicts_sidecar="results/{deployment}/problems/{problem}/verdicts.sidecar.json",
        choice="results/{deployment}/problems/{problem}/choice.parquet",
        choice_sidecar="results/{deployment}/problems/{problem}/choice.sidecar.json",
        module="results/{deployment}/problems/{problem}/chosen.py",
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
        code=code("choose"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        problems=lambda wildcards: ",".join(PIPELINE.chosen_with(wildcards.problem)),
        trained=lambda wildcards: PIPELINE.trained_json(
            *PIPELINE.chosen_with(wildcards.problem)
        ),
    message:
        "Choosing what is to be deployed of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.choose --deployment {params.file} --problem {wildcards.problem}"
        " --problems {params.problems} --trained {params.trained:q} --inputs {input} --outputs {output} --log {log}"
