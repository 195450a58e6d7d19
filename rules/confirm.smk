# What is reported: launches after everything is chosen, which choose nothing.

import json


rule confirm:
    """What is deployed, timed again alone and in steps, beside what needs no search; shared by all Problems."""
    input:
        of_problems("finalists"),
        of_problems("choice"),
        of_all_models("steps"),
        of_all_models("stamps"),
        expand(f"{RESULTS}/deploy/{{problem}}.py", problem=PIPELINE.settings.problems),
    output:
        confirmed="results/{deployment}/confirmed.parquet",
        confirmed_sidecar="results/{deployment}/confirmed.sidecar.json",
        steps="results/{deployment}/confirmed_steps.parquet",
        steps_sidecar="results/{deployment}/confirmed_steps.sidecar.json",
        stamps="results/{deployment}/confirmed_stamps.parquet",
        stamps_sidecar="results/{deployment}/confirmed_stamps.sidecar.json",
    log:
        f"{LOGS}/confirm.log",
    benchmark:
        f"{LOGS}/confirm.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("confirm"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        fields=[PIPELINE.model_json(model) for model in PIPELINE.settings.models],
        machine=PIPELINE.machine,
        models=json.dumps(PIPELINE.settings.models),
        partial=PARTIAL,
        problems=",".join(PIPELINE.settings.problems),
        settings=PIPELINE.settings.part("confirm"),
    message:
        "Timing again what is deployed on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.confirm --deployment {params.file} --problems {params.problems}"
        " --models {params.models:q} --settings {params.settings:q} --partial {params.partial}"
        " --code {params.code} --inputs {input} --outputs {output} --log {log}"
