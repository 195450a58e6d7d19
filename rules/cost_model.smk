# The cost model of the deployment.


rule fit:
    """Coefficients with intervals, and how right they are on Programs that were held out."""
    input:
        "results/{deployment}/probes.parquet",
    output:
        theta="results/{deployment}/theta.parquet",
        theta_sidecar="results/{deployment}/theta.sidecar.json",
        fidelity="results/{deployment}/fidelity.parquet",
        fidelity_sidecar="results/{deployment}/fidelity.sidecar.json",
    log:
        f"{LOGS}/fit.log",
    benchmark:
        f"{LOGS}/fit.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("fit"),
        settings=PIPELINE.settings.part("fit"),
    message:
        "Fitting the cost model of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.fit --settings {params.settings:q}"
        " --inputs {input} --outputs {output} --log {log}"
