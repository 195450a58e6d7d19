# What was chosen for another deployment, at the Cases of this one, and what it costs not to choose here:
#   snakemake --profile local redeploy --config deployment=local-2 source=local
# A target of its own, in a folder of its own: `all` asks for none of it, and what is chosen knows nothing of it.
#
# No model is trained: the bench alone chooses. What this run chose itself, if it did, is timed beside the others.

REDEPLOY = f"{TREE}/redeploy"
AGAIN = f"{REDEPLOY}/problems/{{problem}}"
CANDIDATES_AGAIN = f"{AGAIN}/search/redeployed/candidates.parquet"


def copied(name):
    """A table of the other tree, copied as the run began."""

    def paths(_wildcards):
        try:
            return PIPELINE.source_copies[name]
        except ValueError as error:
            sys.exit(f"error: {error}")

    return paths


def of_problems_again(name):
    """A file of every configured Problem, in this folder."""
    return every(f"{AGAIN}/{name}", problem=PIPELINE.settings.problems)


rule redeploy:
    """The modules, and the table of regret."""
    input:
        lambda wildcards: of_jobs(
            "redeployed",
            "redeploy_shortlist",
            "redeploy_bench",
            "redeploy_finalists",
            "redeploy_choose",
            "redeploy_confirm",
            "redeploy_deploy",
            "regret",
        ),


# Another tree's choices, replayed, proven and priced here; where one does not replay, at which step and why.
use rule light as redeployed with:
    input:
        source_choices=copied("source_choices"),
        cases=f"{PROBLEM}/cases.parquet",
        known_ways=f"{PROBLEM}/known_ways.parquet",
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(AGAIN, "redeployed"),
        **tables(f"{AGAIN}/search/redeployed", "candidates"),
    log:
        f"{REDEPLOY}/logs/redeployed-{{problem}}.log",
    params:
        **stage("redeployed", compared=DEPLOYMENT),
    message:
        "Replaying what another tree chose of {wildcards.problem}"


# The known ways, and these beside them.
use rule light as redeploy_shortlist with:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=CANDIDATES_AGAIN,
    output:
        **tables(AGAIN, "shortlist"),
    log:
        f"{REDEPLOY}/logs/shortlist-{{problem}}.log",
    params:
        **stage(
            "shortlist",
            compared=RANKS_OF,
            settings=PIPELINE.settings.part("shortlist"),
        ),
    message:
        "Listing what is timed of {wildcards.problem}, with what another tree chose"


use rule on_ranks as redeploy_bench with:
    input:
        shortlist=f"{AGAIN}/shortlist.parquet",
    output:
        **tables(AGAIN, "bench"),
    log:
        f"{REDEPLOY}/logs/bench-{{problem}}.log",
    params:
        **stage(
            "bench",
            compared=MEASURED,
            settings=PIPELINE.settings.part("bench"),
            partial=launches_below(REDEPLOY),
        ),
    message:
        "Timing what another tree chose of {wildcards.problem}"


use rule light as redeploy_finalists with:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        shortlist=f"{AGAIN}/shortlist.parquet",
        bench=f"{AGAIN}/bench.parquet",
        prices=f"{PROBLEM}/prices.parquet",
        candidates=CANDIDATES_AGAIN,
        probes=f"{TREE}/probes.parquet",
        theta=f"{TREE}/theta.parquet",
        beside=f"{TREE}/beside.parquet",
        segments=[],
    output:
        **tables(AGAIN, "finalists", "fidelity", "step_prices"),
    log:
        f"{REDEPLOY}/logs/finalists-{{problem}}.log",
    params:
        **stage("finalists", trained_by=json.dumps({}), steps=json.dumps([])),
    message:
        "Naming finalists of {wildcards.problem}, another tree's choices among them"


use rule light as redeploy_choose with:
    input:
        known_ways=f"{PROBLEM}/known_ways.parquet",
        candidates=CANDIDATES_AGAIN,
        shortlist=f"{AGAIN}/shortlist.parquet",
        bench=f"{AGAIN}/bench.parquet",
        finalists=f"{AGAIN}/finalists.parquet",
        probes=f"{TREE}/probes.parquet",
        steps=[],
        stamps=[],
    output:
        **tables(AGAIN, "verdicts", "choice"),
        module=f"{AGAIN}/chosen.py",
    log:
        f"{REDEPLOY}/logs/choose-{{problem}}.log",
    params:
        **stage("choose", compared=RANKS_OF, trained_by=json.dumps({})),
    message:
        "Choosing what is redeployed of {wildcards.problem}"


# What was chosen so, timed again in launches that choose nothing.
use rule on_ranks as redeploy_confirm with:
    input:
        finalists=of_problems_again("finalists.parquet"),
        choice=of_problems_again("choice.parquet"),
        steps=[],
        stamps=[],
        chosen=of_problems_again("chosen.py"),
    output:
        **tables(REDEPLOY, "confirmed", "confirmed_steps", "confirmed_stamps"),
    log:
        f"{REDEPLOY}/logs/confirm.log",
    params:
        **stage(
            "confirm",
            compared=MEASURED,
            problems=",".join(PIPELINE.settings.problems),
            models=json.dumps([]),
            settings=PIPELINE.settings.part("confirm"),
            partial=launches_below(REDEPLOY),
        ),
    message:
        "Timing again what is redeployed on {wildcards.deployment}"


# redeploy/deploy/{problem}.py is no output, as in rule deploy.
use rule light as redeploy_deploy with:
    input:
        finalists=of_problems_again("finalists.parquet"),
        choice=of_problems_again("choice.parquet"),
        chosen=of_problems_again("chosen.py"),
        prices=of_problems("prices.parquet"),
        shortlist=of_problems_again("shortlist.parquet"),
        bench=of_problems_again("bench.parquet"),
        verdicts=of_problems_again("verdicts.parquet"),
        candidates=of_problems_again("search/redeployed/candidates.parquet"),
        steps=[],
        stamps=[],
        confirmed=f"{REDEPLOY}/confirmed.parquet",
        confirmed_steps=f"{REDEPLOY}/confirmed_steps.parquet",
        confirmed_stamps=f"{REDEPLOY}/confirmed_stamps.parquet",
        probes=f"{TREE}/probes.parquet",
    output:
        **tables(REDEPLOY, "deployed", "splits"),
        records=expand(
            "results/{{deployment}}/redeploy/deploy/{problem}.json",
            problem=PIPELINE.settings.problems,
        ),
    log:
        f"{REDEPLOY}/logs/deploy.log",
    params:
        **stage(
            "deploy",
            compared=RANKS_OF,
            problems=",".join(PIPELINE.settings.problems),
        ),
    message:
        "Redeploying what stands on {wildcards.deployment}"


# That tree's choices over this run's own, of one bench, and what its theta is worth here; printed when it is done.
rule regret:
    input:
        redeployed=of_problems_again("redeployed.parquet"),
        shortlist=of_problems_again("shortlist.parquet"),
        bench=of_problems_again("bench.parquet"),
        probes=f"{TREE}/probes.parquet",
        deployed=f"{REDEPLOY}/deployed.parquet",
        source_theta=copied("source_theta"),
        theta=f"{TREE}/theta.parquet",
        fidelity=f"{TREE}/fidelity.parquet",
    output:
        **tables(REDEPLOY, "regret", "source_prices"),
        page=report(
            f"{REDEPLOY}/regret.html",
            caption="captions/regret.rst",
            category="Redeployed",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{REDEPLOY}/logs/regret.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        **stage(
            "regret",
            problems=",".join(PIPELINE.settings.problems),
            tree=lambda wildcards: wildcards.deployment,
        ),
        print=f"--preset {PIPELINE.settings.preset} --to {PIPELINE.deployment.name}",
    message:
        "Comparing another tree's choices with those of {wildcards.deployment}"
    shell:
        STAGE
        + " && python -P -m overlayccl_core.cli.main redeploy {params.print} --show"
