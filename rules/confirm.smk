# What is reported and deployed: launches after everything is chosen, which choose nothing.


# What was chosen, timed again alone and in steps, beside what needs no search; shared by all Problems.
use rule on_ranks as confirm with:
    input:
        finalists=of_problems("finalists.parquet"),
        choice=of_problems("choice.parquet"),
        steps=of_models("steps.parquet"),
        stamps=of_models("stamps.parquet"),
        chosen=of_problems("chosen.py"),
    output:
        **tables(TREE, "confirmed", "confirmed_steps", "confirmed_stamps"),
    log:
        f"{LOGS}/confirm.log",
    params:
        **stage(
            "confirm",
            compared={
                "fields": [
                    PIPELINE.model_json(model) for model in PIPELINE.settings.models
                ],
                **MEASURED,
            },
            problems=",".join(PIPELINE.settings.problems),
            models=json.dumps(PIPELINE.settings.models),
            settings=PIPELINE.settings.part("confirm"),
            partial=launches_below(),
        ),
    message:
        "Timing again what was chosen on {wildcards.deployment}"


# What stands after that is published, or what takes its place; of the framework's own no file has a Case.
#
# deploy/{problem}.py is no output: Snakemake would take it away first, and a script may be using it. A plan counts one
# that is not what its record tells as missing (workflow_scripts/replanning.py).
use rule light as deploy with:
    input:
        finalists=of_problems("finalists.parquet"),
        choice=of_problems("choice.parquet"),
        chosen=of_problems("chosen.py"),
        prices=of_problems("prices.parquet"),
        shortlist=of_problems("shortlist.parquet"),
        bench=of_problems("bench.parquet"),
        verdicts=of_problems("verdicts.parquet"),
        candidates=of_searches("candidates.parquet", problem=PIPELINE.settings.problems),
        steps=of_models("steps.parquet"),
        stamps=of_models("stamps.parquet"),
        confirmed=f"{TREE}/confirmed.parquet",
        confirmed_steps=f"{TREE}/confirmed_steps.parquet",
        confirmed_stamps=f"{TREE}/confirmed_stamps.parquet",
        probes=f"{TREE}/probes.parquet",
    output:
        **tables(TREE, "deployed", "splits"),
        records=report(
            expand(
                "results/{{deployment}}/deploy/{problem}.json",
                problem=PIPELINE.settings.problems,
            ),
            caption="captions/deployed.rst",
            category="Deployed modules",
        ),
    log:
        f"{LOGS}/deploy.log",
    params:
        **stage(
            "deploy",
            compared=RANKS_OF,
            problems=",".join(PIPELINE.settings.problems),
        ),
    message:
        "Deploying what stands of {wildcards.deployment}"
