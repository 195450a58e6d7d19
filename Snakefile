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
include: "rules/probing.smk"
include: "rules/problems.smk"
include: "rules/report.smk"
include: "rules/search.smk"
include: "rules/ablations.smk"
include: "rules/summary.smk"
include: "rules/train.smk"


wildcard_constraints:
    deployment="[a-z][a-z0-9_-]*",
    problem="[a-z][a-z0-9_]*",
    search=rf"[a-z][a-z0-9_-]*(\+[a-z0-9_-]+)?(@[0-9]+)?(?<!{MENDED})",
    model="[a-z][a-z0-9_-]*",


localrules:
    ablations,
    all,
    longrun,
    probing,


rule all:
    default_target: True
    input:
        f"{RESULTS}/summary.parquet",
        f"{RESULTS}/deployed.parquet",
        f"{RESULTS}/splits.parquet",
        f"{RESULTS}/report.html",
        of_problems("choice"),
        of_problems("verdicts"),
        # what stands between: a table that a failed job took with it is missed here, and made again
        expand(
            "{results}/{table}.parquet",
            results=RESULTS,
            table=["capabilities", "probes", "theta", "confirmed", "confirmed_steps"],
        ),
        of_problems("cases"),
        of_problems("seeds"),
        of_problems("prices"),
        of_problems("shortlist"),
        of_problems("bench"),
        of_problems("finalists"),
        expand(
            "{results}/problems/{problem}/search/{search}/candidates.parquet",
            results=RESULTS,
            problem=PIPELINE.settings.problems,
            search=PIPELINE.searches,
        ),
        expand(
            "{results}/train/{model}/steps.parquet",
            results=RESULTS,
            model=PIPELINE.settings.models,
        ),
        expand(
            "{results}/deploy/{problem}.{kind}",
            results=RESULTS,
            problem=PIPELINE.settings.problems,
            kind=["py", "json"],
        ),


include: "rules/archive.smk"


onsuccess:
    one_run.end(PIPELINE.settings.tree)
