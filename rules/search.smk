# Programs that nobody wrote: what rewrite rules, or a language model, make of the proven strategies.
#
# What a language model answered is kept in `answers/` beside the tables. No rule declares that folder: what was paid
# for stays, and is not asked again.


rule search:
    """Every proposal, the Programs that came of them, priced (the cheapest of every family proven), why it ended."""
    input:
        "results/{deployment}/problems/{problem}/cases.parquet",
        "results/{deployment}/problems/{problem}/seeds.parquet",
        "results/{deployment}/theta.parquet",
        "results/{deployment}/fidelity.parquet",
        "results/{deployment}/capabilities.parquet",
    output:
        sketches="results/{deployment}/problems/{problem}/search/{search}/sketches.parquet",
        sketches_sidecar="results/{deployment}/problems/{problem}/search/{search}/sketches.sidecar.json",
        candidates="results/{deployment}/problems/{problem}/search/{search}/candidates.parquet",
        candidates_sidecar="results/{deployment}/problems/{problem}/search/{search}/candidates.sidecar.json",
        search_ends="results/{deployment}/problems/{problem}/search/{search}/search_ends.parquet",
        search_ends_sidecar="results/{deployment}/problems/{problem}/search/{search}/search_ends.sidecar.json",
        calls="results/{deployment}/problems/{problem}/search/{search}/calls.parquet",
        calls_sidecar="results/{deployment}/problems/{problem}/search/{search}/calls.sidecar.json",
    log:
        f"{LOGS}/search-{{problem}}-{{search}}.log",
    benchmark:
        f"{LOGS}/search-{{problem}}-{{search}}.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        llm=lambda wildcards: PIPELINE.asks(wildcards.search),
    params:
        code=code("search"),
        deployment=PIPELINE.deployment_json,
        file=PIPELINE.deployment_file,
        search=lambda wildcards: PIPELINE.search_json(wildcards.search),
        asking=PIPELINE.settings.part("asking"),
        answers=lambda wildcards, output: Path(output.sketches).parent / "answers",
    message:
        "Searching {wildcards.problem} ({wildcards.search})"
    shell:
        "python -m workflow_scripts.search --deployment {params.file} --problem {wildcards.problem}"
        " --search {params.search:q} --asking {params.asking:q}"
        " --answers {params.answers} --tree results/{wildcards.deployment}"
        " --inputs {input} --outputs {output} --log {log}"
