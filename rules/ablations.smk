# Searches side by side, by what they find after how many evaluations:  snakemake --profile local ablations
# A target of its own, in a folder of its own: `all` asks for none of it, and what is chosen knows nothing of it.

ABLATION = "results/{deployment}/ablations"


rule ablations:
    """The tables of all that is compared, and a page with a figure."""
    input:
        lambda wildcards: [
            path
            for problem, search in PIPELINE.compared
            for path in of_jobs("ablation_search", problem=problem, search=search)
        ],
        lambda wildcards: of_jobs("ablation", "ablation_page"),


use rule search as ablation_search with:
    output:
        **{
            name: path.replace("{deployment}", "{deployment}/ablations")
            for name, path in rules.search.output.items()
        },
    log:
        f"{ABLATION}/logs/search-{{problem}}-{{search}}.log",
    benchmark:
        f"{ABLATION}/logs/search-{{problem}}-{{search}}.tsv"
    params:
        search=lambda wildcards: PIPELINE.compared_json(wildcards.search),


rule ablation:
    """What each search had found after how many evaluations, beside the best of all."""
    input:
        compared("sketches", "candidates", "calls"),
    output:
        curves="results/{deployment}/ablations/ablation_curves.parquet",
        curves_sidecar="results/{deployment}/ablations/ablation_curves.sidecar.json",
        ablations="results/{deployment}/ablations/ablations.parquet",
        ablations_sidecar="results/{deployment}/ablations/ablations.sidecar.json",
    log:
        f"{ABLATION}/logs/ablation.log",
    benchmark:
        f"{ABLATION}/logs/ablation.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("ablation"),
        problems=lambda wildcards: ",".join(
            dict.fromkeys(problem for problem, _ in PIPELINE.compared)
        ),
    message:
        "Comparing the searches of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.ablation --problems {params.problems}"
        " --inputs {input} --outputs {output} --log {log}"


rule ablation_page:
    """One self-contained HTML page with the curves of all searches."""
    input:
        "results/{deployment}/ablations/ablation_curves.parquet",
        "results/{deployment}/ablations/ablations.parquet",
    output:
        page=report(
            "results/{deployment}/ablations/ablations.html",
            caption="captions/ablations.rst",
            category="Searches",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{ABLATION}/logs/ablation_page.log",
    benchmark:
        f"{ABLATION}/logs/ablation_page.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("ablation_page"),
    message:
        "Drawing the searches of {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.ablation_page --name {wildcards.deployment}"
        " --inputs {input} --outputs {output} --log {log}"
