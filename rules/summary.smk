# What people read.


rule summary:
    """Proof, price and bench side by side; what is deployed is printed when it is done."""
    input:
        of_problems("seeds"),
        of_problems("prices"),
        of_problems("shortlist"),
        of_problems("bench"),
        of_problems("choice"),
        of_problems("fidelity"),
        of_searches("candidates", PIPELINE.settings.problems),
        "results/{deployment}/deployed.parquet",
        "results/{deployment}/splits.parquet",
        "results/{deployment}/probes.parquet",
        "results/{deployment}/fidelity.parquet",
    output:
        summary="results/{deployment}/summary.parquet",
        summary_sidecar="results/{deployment}/summary.sidecar.json",
    log:
        f"{LOGS}/summary.log",
    benchmark:
        f"{LOGS}/summary.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("summary"),
        deployment=PIPELINE.deployment_json,
        file=PIPELINE.deployment_file,
        print=f"--deployment {PIPELINE.deployment.name} --preset {PIPELINE.settings.preset}",
        problems=",".join(PIPELINE.settings.problems),
    message:
        "Summing up {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.summary --deployment {params.file} --problems {params.problems}"
        " --inputs {input} --outputs {output} --log {log}"
        " && python -P -m overlayccl_core.cli.main {params.print} summary"
