# The cost model of the deployment.


# Coefficients with intervals, and how right they are on Programs that were held out.
use rule light as fit with:
    input:
        probes=f"{TREE}/probes.parquet",
    output:
        **tables(TREE, "theta", "fidelity", "beside"),
    log:
        f"{LOGS}/fit.log",
    benchmark:
        f"{LOGS}/fit.tsv"
    params:
        **stage("fit", settings=PIPELINE.settings.part("fit")),
    message:
        "Fitting the cost model of {wildcards.deployment}"
