# What is reported and deployed: launches after everything is chosen, which choose nothing.

import json


rule confirm:
    """What was chosen, timed again alone and in steps, beside what needs no search; shared by all Problems."""
    input:
        of_problems("finalists"),
        of_problems("choice"),
        of_all_models("steps"),
        of_all_models("stamps"),
        of_problems("chosen", "py"),
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
        "Timing again what was chosen on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.confirm --deployment {params.file} --problems {params.problems}"
        " --models {params.models:q} --settings {params.settings:q} --partial {params.partial}"
        " --code {params.code} --inputs {input} --outputs {output} --log {log}"


rule deploy:
    """What stands after that is published, or what takes its place; of the framework's own no file has a Case.

    deploy/{problem}.py is no output: Snakemake would take it away first, and a script may be using it. A plan
    counts one that is not what its record tells as missing (workflow_scripts/replanning.py).
    """
    input:
        of_problems("finalists"),
        of_problems("choice"),
        of_problems("chosen", "py"),
        of_problems("prices"),
        of_problems("shortlist"),
        of_problems("bench"),
        of_problems("verdicts"),
        of_searches("candidates", PIPELINE.settings.problems),
        of_all_models("steps"),
        of_all_models("stamps"),
        "results/{deployment}/confirmed.parquet",
        "results/{deployment}/confirmed_steps.parquet",
        "results/{deployment}/confirmed_stamps.parquet",
        "results/{deployment}/probes.parquet",
    output:
        deployed="results/{deployment}/deployed.parquet",
        deployed_sidecar="results/{deployment}/deployed.sidecar.json",
        splits="results/{deployment}/splits.parquet",
        splits_sidecar="results/{deployment}/splits.sidecar.json",
        records=report(
            expand(
                "results/{{deployment}}/deploy/{problem}.json",
                problem=PIPELINE.settings.problems,
            ),
            caption="captions/deployed.rst",
            category="Deployed modules",
        ),
    log:
        f"{LOGS}/deploy.log",
    benchmark:
        f"{LOGS}/deploy.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("deploy"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        problems=",".join(PIPELINE.settings.problems),
    message:
        "Deploying what stands of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.deploy --deployment {params.file} --problems {params.problems}"
        " --inputs {input} --outputs {output} --log {log}"
