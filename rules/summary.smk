# What people read.


# Proof, price and bench side by side; what is deployed is printed when it is done.
rule summary:
    input:
        known_ways=of_problems("known_ways.parquet"),
        prices=of_problems("prices.parquet"),
        shortlist=of_problems("shortlist.parquet"),
        bench=of_problems("bench.parquet"),
        choice=of_problems("choice.parquet"),
        fidelities=of_problems("fidelity.parquet"),
        candidates=of_searches("candidates.parquet", problem=PIPELINE.settings.problems),
        # its last line: what the run took, and when that is saved
        calls=of_searches("calls.parquet", problem=PIPELINE.settings.problems),
        steps=of_models("steps.parquet"),
        stamps=of_models("stamps.parquet"),
        confirmed_steps=f"{TREE}/confirmed_steps.parquet",
        deployed=f"{TREE}/deployed.parquet",
        splits=f"{TREE}/splits.parquet",
        probes=f"{TREE}/probes.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
    output:
        **tables(TREE, "summary"),
    log:
        f"{LOGS}/summary.log",
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
