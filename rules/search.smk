# Programs that nobody wrote: what rewrite rules, or a language model, make of the proven strategies.
#
# What a language model wrote is run once on the ranks. What fails there is asked about again, in a second round, which is
# empty where nothing failed.
#
# What a language model answered is kept in `answers/` beside the tables. No rule declares that folder: what was paid
# for stays, and is not asked again.

SEARCH = f"{PROBLEM}/search/{{search}}"


def searching(folder, search):
    """The parameters of a search. folder: where its tables are; search: the name in its wildcards -> its fields."""
    return stage(
        "search",
        compared=DEPLOYMENT,
        search=lambda wildcards: search(wildcards.search),
        max_usd=lambda wildcards: json.dumps(
            PIPELINE.settings.asking.max_usd
            if PIPELINE.asks(wildcards.search)
            else None
        ),
        answers=lambda wildcards: f"{folder.format(**wildcards)}/answers",
        tree=lambda wildcards: f"results/{wildcards.deployment}",
    )


# Every proposal, the Programs that came of them, priced (the cheapest of every family proven), why it ended.
use rule light as search with:
    input:
        cases=f"{PROBLEM}/cases.parquet",
        known_ways=f"{PROBLEM}/known_ways.parquet",
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(SEARCH, "sketches", "candidates", "search_ends", "calls"),
    log:
        f"{LOGS}/search-{{problem}}-{{search}}.log",
    resources:
        mem_mb=2000,
        llm=lambda wildcards: PIPELINE.asks(wildcards.search),
    params:
        **searching(SEARCH, PIPELINE.search_json),
    message:
        "Searching {wildcards.problem} ({wildcards.search})"


# What a search's language model wrote, run once on the ranks: does it run, and are its values right?
use rule on_ranks as trial with:
    input:
        candidates=f"{SEARCH}/candidates.parquet",
    output:
        **tables(SEARCH, "trials"),
    log:
        f"{LOGS}/trial-{{problem}}-{{search}}.log",
    params:
        **stage(
            "trial",
            compared=MEASURED,
            search=lambda wildcards: wildcards.search,
            partial=launches_below(),
        ),
    message:
        "Running what was sketched of {wildcards.problem} ({wildcards.search}) once"


use rule search as mended_search with:
    input:
        **rules.search.input,
        **{
            table: f"{SEARCH}/{table}.parquet"
            for table in ("trials", "candidates", "sketches")
        },
    output:
        **tables(f"{SEARCH}{MENDED}", "sketches", "candidates", "search_ends", "calls"),
    log:
        f"{LOGS}/search-{{problem}}-{{search}}{MENDED}.log",
    params:
        **searching(
            f"{SEARCH}{MENDED}", lambda name: PIPELINE.search_json(f"{name}{MENDED}")
        ),
    message:
        "Searching {wildcards.problem} again from what failed on the ranks ({wildcards.search})"
