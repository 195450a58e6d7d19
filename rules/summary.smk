# What people read.


# Proof, price and bench side by side; what is deployed is printed when it is done.
rule summary:
    input:
        known_ways=of_problems("known_ways"),
        prices=of_problems("prices"),
        shortlist=of_problems("shortlist"),
        bench=of_problems("bench"),
        choice=of_problems("choice"),
        fidelities=of_problems("fidelity"),
        candidates=of_searches("candidates", PIPELINE.settings.problems),
        deployed=f"{TREE}/deployed.parquet",
        splits=f"{TREE}/splits.parquet",
        probes=f"{TREE}/probes.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
    output:
        **tables(TREE, "summary"),
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
        **stage(
            "summary",
            compared=DEPLOYMENT,
            problems=",".join(PIPELINE.settings.problems),
        ),
        print=f"--deployment {PIPELINE.deployment.name} --preset {PIPELINE.settings.preset}",
    message:
        "Summing up {wildcards.deployment}"
    shell:
        STAGE + " && python -P -m overlayccl_core.cli.main {params.print} summary"
