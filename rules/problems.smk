# What people know of each Problem, and what it should cost.


# The Cases of a Problem.
use rule light as cases with:
    output:
        **tables(PROBLEM, "cases"),
    log:
        f"{LOGS}/cases-{{problem}}.log",
    params:
        **stage(
            "cases",
            compared={
                "cases": lambda wildcards: PIPELINE.cases_json(wildcards.problem)
            },
            settings=lambda wildcards: PIPELINE.settings_of(wildcards.problem),
        ),
    message:
        "Writing down the Cases of {wildcards.problem}"


# Every strategy of a Problem's library, traced and proven at every Case.
use rule light as known_ways with:
    input:
        cases=f"{PROBLEM}/cases.parquet",
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(PROBLEM, "known_ways"),
    log:
        f"{LOGS}/known_ways-{{problem}}.log",
    params:
        **stage("known_ways", compared=DEPLOYMENT),
    message:
        "Tracing and proving the strategies of {wildcards.problem}"


# What the cost model says of every known way, by term.
use rule light as price with:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
    output:
        **tables(PROBLEM, "prices"),
    log:
        f"{LOGS}/price-{{problem}}.log",
    params:
        **stage("price", compared=DEPLOYMENT),
    message:
        "Pricing the strategies of {wildcards.problem}"
