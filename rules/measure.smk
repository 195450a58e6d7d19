# Timing rules: they ask for all cores and for the machine, so nothing else runs beside them.


# All checks that must hold before anything is timed, and what the library can do.
checkpoint selftest:
    output:
        **tables(TREE, "selftest", "capabilities"),
    log:
        f"{LOGS}/selftest.log",
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        **stage(
            "selftest",
            compared=MEASURED,
            payload=PIPELINE.largest_payload_bytes,
            partial=launches_below(),
        ),
    message:
        "Checking the ranks of {wildcards.deployment} and what their library can do"
    shell:
        STAGE


# Raw samples of structured, mixed and held-out Programs.
use rule on_ranks as probe with:
    input:
        capabilities=f"{TREE}/capabilities.parquet",
    output:
        **tables(TREE, "probes"),
    log:
        f"{LOGS}/probe.log",
    params:
        **stage(
            "probe",
            compared=MEASURED,
            settings=PIPELINE.settings.part("probe", "heldout_seed"),
            partial=launches_below(),
        ),
    message:
        "Timing probe Programs on {wildcards.deployment}"


# Raw samples of a Problem's shortlist, both directions of all Cases.
use rule on_ranks as bench with:
    input:
        shortlist=f"{PROBLEM}/shortlist.parquet",
    output:
        **tables(PROBLEM, "bench"),
    log:
        f"{LOGS}/bench-{{problem}}.log",
    params:
        **stage(
            "bench",
            compared=MEASURED,
            settings=PIPELINE.settings.part("bench"),
            partial=launches_below(),
        ),
    message:
        "Timing the shortlist of {wildcards.problem}"
