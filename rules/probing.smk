# A language model chooses what is timed to learn the deployment:  snakemake --profile local probing --config proposer=claude
# A target of its own, in a folder of its own: `all` asks for none of it, and its cost model is that of the sweep.

CHOOSING = "results/{deployment}/probing"


rule probing:
    """How good the cost model becomes of what a model chose, beside the sweep, as a table and a page."""
    input:
        lambda wildcards: of_jobs("ask_probes", search=PIPELINE.asking),
        lambda wildcards: of_jobs("time_probes", "weigh_probes", "probing_page"),


rule ask_probes:
    """What a model ordered, what was measured of it, and every question to it."""
    input:
        "results/{deployment}/capabilities.parquet",
    output:
        asked="results/{deployment}/probing/{search}/asked_probes.parquet",
        asked_sidecar="results/{deployment}/probing/{search}/asked_probes.sidecar.json",
        chosen="results/{deployment}/probing/{search}/chosen_probes.parquet",
        chosen_sidecar="results/{deployment}/probing/{search}/chosen_probes.sidecar.json",
        calls="results/{deployment}/probing/{search}/probe_calls.parquet",
        calls_sidecar="results/{deployment}/probing/{search}/probe_calls.sidecar.json",
    log:
        f"{CHOOSING}/logs/ask_probes-{{search}}.log",
    benchmark:
        f"{CHOOSING}/logs/ask_probes-{{search}}.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
        llm=1,
    params:
        code=code("ask_probes"),
        deployment=PIPELINE.deployment_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=f"{CHOOSING}/{{search}}/.partial",
        search=lambda wildcards: PIPELINE.search_json(wildcards.search),
        settings=PIPELINE.settings.part(
            "probe", "heldout_seed", "fit", "probing", "asking"
        ),
        answers=lambda wildcards, output: Path(output.asked).parent / "answers",
    message:
        "Letting {wildcards.search} choose probes on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.ask_probes --deployment {params.file} --search {params.search:q}"
        " --settings {params.settings:q} --partial {params.partial} --answers {params.answers}"
        " --tree results/{wildcards.deployment} --code {params.code}"
        " --inputs {input} --outputs {output} --log {log}"


rule time_probes:
    """Raw samples of the sweep, the held-out Programs and all that was chosen, from one launch."""
    input:
        "results/{deployment}/capabilities.parquet",
        of_choosers("chosen_probes"),
    output:
        probes="results/{deployment}/probing/compared_probes.parquet",
        sidecar="results/{deployment}/probing/compared_probes.sidecar.json",
    log:
        f"{CHOOSING}/logs/time_probes.log",
    benchmark:
        f"{CHOOSING}/logs/time_probes.tsv"
    conda:
        "../envs/local.yaml"
    threads: THREADS
    resources:
        **RANKS,
    params:
        code=code("time_probes"),
        deployment=PIPELINE.ranks_json,
        file=PIPELINE.deployment_file,
        machine=PIPELINE.machine,
        partial=f"{CHOOSING}/.partial",
        settings=PIPELINE.settings.part("probe", "heldout_seed", "probing"),
    message:
        "Timing the sweep and what models chose on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.time_probes --deployment {params.file} --settings {params.settings:q}"
        " --partial {params.partial} --code {params.code}"
        " --inputs {input} --outputs {output} --log {log}"


rule weigh_probes:
    """Cost models of what was chosen, of the sweep and of as much of it, judged on held-out Programs."""
    input:
        of_choosers("asked_probes"),
        of_choosers("probe_calls"),
        "results/{deployment}/probing/compared_probes.parquet",
    output:
        probing="results/{deployment}/probing/probing.parquet",
        sidecar="results/{deployment}/probing/probing.sidecar.json",
    log:
        f"{CHOOSING}/logs/weigh_probes.log",
    benchmark:
        f"{CHOOSING}/logs/weigh_probes.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("weigh_probes"),
        settings=PIPELINE.settings.part("fit", "probing"),
    message:
        "Weighing the probes that models chose on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.weigh_probes --settings {params.settings:q}"
        " --inputs {input} --outputs {output} --log {log}"


rule probing_page:
    """One self-contained HTML page with the table."""
    input:
        "results/{deployment}/probing/probing.parquet",
    output:
        page=report(
            "results/{deployment}/probing/probing.html",
            caption="captions/probing.rst",
            category="Probes",
            labels={"deployment": "{deployment}"},
        ),
    log:
        f"{CHOOSING}/logs/probing_page.log",
    benchmark:
        f"{CHOOSING}/logs/probing_page.tsv"
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=1000,
    params:
        code=code("probing_page"),
    message:
        "Drawing the probes that models chose on {wildcards.deployment}"
    shell:
        "python -P -m workflow_scripts.probing_page --name {wildcards.deployment}"
        " --inputs {input} --outputs {output} --log {log}"
