# Timing rules: they ask for all cores and for the machine, so nothing else runs beside them.


checkpoint selftest:
    """All checks that must hold before anything is timed, and what the library can do."""
    output:
        selftest="results/{deployment}/selftest.parquet",
        selftest_sidecar="results/{deployment}/selftest.sidecar.json",
        capabilities="results/{deployment}/capabilities.parquet",
        capabilities_sidecar="results/{deployment}/capabilities.sidecar.json",
    log:
        f"{LOGS}/selftest.log",
    benchmark:
        f"{LOGS}/selftest.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("selftest"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=PARTIAL,
        payload=PIPELINE.largest_payload_bytes,
    message:
        "Checking the ranks of {wildcards.deployment} and what their library can do"
    shell:
        "python -P -m workflow_scripts.selftest --deployment {params.file} --partial {params.partial}"
        " --payload {params.payload} --code {params.code} --outputs {output} --log {log}"


rule probe:
    """Raw samples of structured, mixed and held-out Programs."""
    input:
        "results/{deployment}/capabilities.parquet",
    output:
        probes="results/{deployment}/probes.parquet",
        sidecar="results/{deployment}/probes.sidecar.json",
    log:
        f"{LOGS}/probe.log",
    benchmark:
        f"{LOGS}/probe.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("probe"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=PARTIAL,
        settings=PIPELINE.settings.part("probe", "heldout_seed"),
    message:
        "Timing probe Programs on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.probe --deployment {params.file} --settings {params.settings:q}"
        " --partial {params.partial} --code {params.code}"
        " --inputs {input} --outputs {output} --log {log}"


rule bench:
    """Raw samples of a Problem's shortlist, both directions of all Cases."""
    input:
        "results/{deployment}/problems/{problem}/shortlist.parquet",
    output:
        bench="results/{deployment}/problems/{problem}/bench.parquet",
        sidecar="results/{deployment}/problems/{problem}/bench.sidecar.json",
    log:
        f"{LOGS}/bench-{{problem}}.log",
    benchmark:
        f"{LOGS}/bench-{{problem}}.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("bench"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=PARTIAL,
        settings=PIPELINE.settings.part("bench"),
    message:
        "Timing the shortlist of {wildcards.problem}"
    shell:
        "python -P -m workflow_scripts.bench --deployment {params.file} --problem {wildcards.problem}"
        " --settings {params.settings:q} --partial {params.partial} --code {params.code}"
        " --inputs {input} --outputs {output} --log {log}"
