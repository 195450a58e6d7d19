# Searches side by side, by what they find after how many evaluations:  snakemake --profile local ablations
# A target of its own, in a folder of its own: `all` asks for none of it, and what is chosen knows nothing of it.

ABLATION = f"{TREE}/ablations"
COMPARED = SEARCH.replace(TREE, ABLATION)


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
        **tables(COMPARED, "sketches", "candidates", "search_ends", "calls"),
    log:
        f"{ABLATION}/logs/search-{{problem}}-{{search}}.log",
    params:
        **searching(COMPARED, PIPELINE.compared_json),


def compared(table):
    """A table of all searches at all seeds that are compared."""
    return lambda wildcards: [
        f"{COMPARED}/{table}.parquet".format(
            deployment=wildcards.deployment, problem=problem, search=search
        )
        for problem, search in PIPELINE.compared
    ]


# What each search had found after how many evaluations, beside the best of all.
use rule light as ablation with:
    input:
        sketches=compared("sketches"),
        candidates=compared("candidates"),
        calls=compared("calls"),
    output:
        **tables(ABLATION, "ablation_curves", "ablation_places", "ablations"),
    log:
        f"{ABLATION}/logs/ablation.log",
    params:
        **stage("ablation"),
    message:
        "Comparing the searches of {wildcards.deployment}"


# One self-contained HTML page with the curves of all searches.
use rule light as ablation_page with:
    input:
        ablation_curves=f"{ABLATION}/ablation_curves.parquet",
        ablation_places=f"{ABLATION}/ablation_places.parquet",
        ablations=f"{ABLATION}/ablations.parquet",
    output:
        page=report(
            f"{ABLATION}/ablations.html",
            caption="captions/ablations.rst",
            category="Searches",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{ABLATION}/logs/ablation_page.log",
    params:
        **stage("ablation_page", name=lambda wildcards: wildcards.deployment),
    message:
        "Drawing the searches of {wildcards.deployment}"
