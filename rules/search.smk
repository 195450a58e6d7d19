# Programs that nobody wrote: what rewrite rules, or a language model, make of the proven strategies.
#
# What a language model wrote is run once on the ranks. What fails there is asked about again, in a second round, which is
# empty where nothing failed.
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
        max_usd=lambda wildcards: json.dumps(
            PIPELINE.settings.asking.max_usd
            if PIPELINE.asks(wildcards.search)
            else None
        ),
        answers=lambda wildcards, output: Path(output.sketches).parent / "answers",
    message:
        "Searching {wildcards.problem} ({wildcards.search})"
    shell:
        "python -P -m workflow_scripts.search --deployment {params.file} --problem {wildcards.problem}"
        " --search {params.search:q} --max-usd {params.max_usd}"
        " --answers {params.answers} --tree results/{wildcards.deployment}"
        " --inputs {input} --outputs {output} --log {log}"


rule trial:
    """What a search's language model wrote, run once on the ranks: does it run, and are its values right?"""
    input:
        "results/{deployment}/problems/{problem}/search/{search}/candidates.parquet",
    output:
        trials="results/{deployment}/problems/{problem}/search/{search}/trials.parquet",
        sidecar="results/{deployment}/problems/{problem}/search/{search}/trials.sidecar.json",
    log:
        f"{LOGS}/trial-{{problem}}-{{search}}.log",
    benchmark:
        f"{LOGS}/trial-{{problem}}-{{search}}.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("trial"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=PARTIAL,
    message:
        "Running what was sketched of {wildcards.problem} ({wildcards.search}) once"
    shell:
        "python -P -m workflow_scripts.trial --deployment {params.file} --problem {wildcards.problem}"
        " --search {wildcards.search} --partial {params.partial} --code {params.code}"
        " --inputs {input} --outputs {output} --log {log}"


use rule search as mended_search with:
    input:
        rules.search.input,
        **{
            table: "results/{deployment}/problems/{problem}/search/{search}/%s.parquet"
            % table
            for table in ["trials", "candidates", "sketches"]
        },
    output:
        **{
            name: path.replace("{search}", f"{{search}}{MENDED}")
            for name, path in rules.search.output.items()
        },
    log:
        f"{LOGS}/search-{{problem}}-{{search}}{MENDED}.log",
    benchmark:
        f"{LOGS}/search-{{problem}}-{{search}}{MENDED}.tsv"
    params:
        search=lambda wildcards: PIPELINE.search_json(f"{wildcards.search}{MENDED}"),
    message:
        "Searching {wildcards.problem} again from what failed on the ranks ({wildcards.search})"
