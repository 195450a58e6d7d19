# The page that people look at.


rule report:
    """One self-contained HTML page with figures, of all that a run found."""
    input:
        "results/{deployment}/probes.parquet",
        "results/{deployment}/theta.parquet",
        "results/{deployment}/fidelity.parquet",
        of_problems("seeds"),
        of_problems("prices"),
        of_problems("bench"),
        of_problems("fidelity"),
        of_problems("verdicts"),
        of_problems("choice"),
        of_searches("sketches", PIPELINE.settings.problems),
        of_searches("candidates", PIPELINE.settings.problems),
        of_searches("search_ends", PIPELINE.settings.problems),
        of_searches("calls", PIPELINE.settings.problems),
        of_trials,
        of_all_models("steps"),
        of_all_models("stamps"),
        "results/{deployment}/confirmed.parquet",
        "results/{deployment}/confirmed_steps.parquet",
        "results/{deployment}/confirmed_stamps.parquet",
        "results/{deployment}/deployed.parquet",
        "results/{deployment}/splits.parquet",
    output:
        page=report(
            "results/{deployment}/report.html",
            caption="captions/report.rst",
            category="Report",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{LOGS}/report.log",
    benchmark:
        f"{LOGS}/report.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("report"),
        tree=lambda wildcards, output: Path(output.page).parent,
    message:
        "Drawing the report of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.report --tree {params.tree}"
        " --inputs {input} --outputs {output} --log {log}"
