# Real training steps: the finalists beside every baseline, on the machine alone.


rule train:
    """Steps of all arms of a model, several launches, and what ran at its sites."""
    input:
        lambda wildcards: [
            f"results/{wildcards.deployment}/problems/{problem}/finalists.parquet"
            for problem in PIPELINE.problems_of_model(wildcards.model)
        ],
    output:
        steps="results/{deployment}/train/{model}/steps.parquet",
        steps_sidecar="results/{deployment}/train/{model}/steps.sidecar.json",
        stamps="results/{deployment}/train/{model}/stamps.parquet",
        stamps_sidecar="results/{deployment}/train/{model}/stamps.sidecar.json",
    log:
        f"{LOGS}/train-{{model}}.log",
    benchmark:
        f"{LOGS}/train-{{model}}.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("train"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        model=lambda wildcards: PIPELINE.model_json(wildcards.model),
        partial=PARTIAL,
        problems=lambda wildcards: ",".join(PIPELINE.problems_of_model(wildcards.model)),
        settings=PIPELINE.settings.part("train"),
    message:
        "Training {wildcards.model} in all ways that are compared"
    shell:
        "python -P -m workflow_scripts.train --deployment {params.file} --model {wildcards.model}"
        " --problems {params.problems} --settings {params.settings:q} --partial {params.partial}"
        " --code {params.code} --inputs {input} --outputs {output} --log {log}"
