# Many steps of what was chosen and of what stands beside it, for their losses:  snakemake --profile local longrun
# A target of its own, in a folder of its own: `all` asks for none of it.

LONGRUN = "results/{deployment}/longrun"


rule longrun:
    """The losses of all configured models."""
    input:
        lambda wildcards: of_jobs("longtrain", "losses"),


rule longtrain:
    """Many steps of the arms of a model at the M that is deployed, each in launches of its own."""
    input:
        lambda wildcards: [
            path.format(deployment=wildcards.deployment, problem=problem)
            for problem in PIPELINE.problems_of_model(wildcards.model)
            for path in (
                "results/{deployment}/problems/{problem}/finalists.parquet",
                "results/{deployment}/problems/{problem}/choice.parquet",
                "results/{deployment}/problems/{problem}/chosen.py",
            )
        ],
        "results/{deployment}/train/{model}/steps.parquet",
        "results/{deployment}/train/{model}/stamps.parquet",
    output:
        steps="results/{deployment}/longrun/{model}/long_steps.parquet",
        steps_sidecar="results/{deployment}/longrun/{model}/long_steps.sidecar.json",
        stamps="results/{deployment}/longrun/{model}/long_stamps.parquet",
        stamps_sidecar="results/{deployment}/longrun/{model}/long_stamps.sidecar.json",
    log:
        f"{LONGRUN}/logs/longtrain-{{model}}.log",
    benchmark:
        f"{LONGRUN}/logs/longtrain-{{model}}.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("longtrain"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        model=lambda wildcards: PIPELINE.long_model_json(wildcards.model),
        partial=f"{LONGRUN}/.partial",
        problems=lambda wildcards: ",".join(PIPELINE.problems_of_model(wildcards.model)),
        settings=PIPELINE.settings.part("longrun"),
    message:
        "Training {wildcards.model} for many steps"
    shell:
        "python -P -m workflow_scripts.longtrain --deployment {params.file} --model {wildcards.model}"
        " --problems {params.problems} --settings {params.settings:q} --partial {params.partial}"
        " --code {params.code} --inputs {input} --outputs {output} --log {log}"


rule losses:
    """The losses of all models' arms in one table, and whether they train as the developer's do."""
    input:
        of_long_models("long_steps"),
        of_long_models("long_stamps"),
        of_problems("finalists"),
        of_problems("choice"),
    output:
        losses="results/{deployment}/longrun/losses.parquet",
        losses_sidecar="results/{deployment}/longrun/losses.sidecar.json",
        curves="results/{deployment}/longrun/curves.parquet",
        curves_sidecar="results/{deployment}/longrun/curves.sidecar.json",
    log:
        f"{LONGRUN}/logs/losses.log",
    benchmark:
        f"{LONGRUN}/logs/losses.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("losses"),
        problems=",".join(PIPELINE.settings.problems),
    message:
        "Comparing the losses of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.losses --problems {params.problems}"
        " --inputs {input} --outputs {output} --log {log}"
