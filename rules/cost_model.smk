# The cost model of the deployment.


# Coefficients with intervals, and how right they are on Programs that were held out.
use rule light as fit with:
    input:
        probes=f"{TREE}/probes.parquet",
    output:
        **tables(TREE, "theta", "fidelity", "beside"),
    log:
        f"{LOGS}/fit.log",
    params:
        **stage("fit", settings=PIPELINE.settings.part("fit")),
    message:
        "Fitting the cost model of {wildcards.deployment}"


# What each part of the cost model is worth: prices, order and choice without it.
use rule light as price_ablation with:
    input:
        probes=f"{TREE}/probes.parquet",
        shortlist=of_problems("shortlist.parquet"),
        bench=of_problems("bench.parquet"),
    output:
        **tables(TREE, "price_ablations"),
    log:
        f"{LOGS}/price_ablation.log",
    params:
        **stage("price_ablation", settings=PIPELINE.settings.part("fit")),
    message:
        "Weighing the parts of the cost model of {wildcards.deployment}"
