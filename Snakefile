# Everything that OverlayCCL finds out about a deployment:  snakemake --profile local all
# What is measured is in config/, where it runs in profiles/, one phase per file in rules/.

from snakemake.utils import min_version

min_version("9.27.1")


configfile: "config/config.yaml"


include: "rules/common.smk"
include: "rules/choice.smk"
include: "rules/confirm.smk"
include: "rules/longrun.smk"
include: "rules/measure.smk"
include: "rules/cost_model.smk"
include: "rules/decompose.smk"
include: "rules/drift.smk"
include: "rules/probing.smk"
include: "rules/problems.smk"
include: "rules/redeploy.smk"
include: "rules/report.smk"
include: "rules/scopes.smk"
include: "rules/search.smk"
include: "rules/ablations.smk"
include: "rules/summary.smk"
include: "rules/sweeps.smk"
include: "rules/train.smk"
include: "rules/tune.smk"


wildcard_constraints:
    deployment="[a-z][a-z0-9_-]*",
    problem="[a-z][a-z0-9_]*",
    search=rf"[a-z][a-z0-9_-]*(\+[a-z0-9_-]+)?(@[0-9]+)?(?<!{MENDED})",
    model="[a-z][a-z0-9_-]*",


localrules:
    ablations,
    all,
    decompose,
    drift,
    longrun,
    probing,
    redeploy,
    scopes,
    sweep_m,
    sweep_payload,
    tune,


rule all:
    default_target: True
    input:
        # all of each job, and not one file: what a failed job took with it, or somebody moved away, is made again
        of_jobs("selftest", "probe", "fit"),
        of_jobs(
            "cases", "known_ways", "price", "shortlist", "bench", "finalists", "choose"
        ),
        of_jobs("search", search=PIPELINE.searches),
        of_jobs("trial", search=PIPELINE.asking),
        of_jobs("segments", "train", "step_fidelity", "price_ablation"),
        of_jobs("confirm", "deploy", "summary", "report"),


include: "rules/archive.smk"


onsuccess:
    one_run.end(PIPELINE.settings.tree)
