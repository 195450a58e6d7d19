# Does the cost model still hold, and which choices would change?  snakemake --profile local drift
# A target of its own, in a folder of its own: it reads what a run has left as it is, and no rule reads what it writes.

from time import time_ns

DRIFT = f"{TREE}/drift"
ASKED_NS = time_ns()


rule drift:
    """Some probes timed again, and what they say about theta and the choices."""
    input:
        lambda wildcards: of_jobs("reprobe"),


# Raw samples of some probes, which of them are inside their intervals, and the choices by scaled prices.
use rule on_ranks as reprobe with:
    output:
        **tables(DRIFT, "reprobes", "drift", "drifted_choices"),
    log:
        f"{DRIFT}/logs/reprobe.log",
    params:
        **stage(
            "reprobe",
            # it runs whenever it is asked
            compared={**MEASURED, "asked": ASKED_NS},
            settings=PIPELINE.settings.part("probe", "drift"),
            partial=launches_below(DRIFT),
            tree=lambda wildcards: f"results/{wildcards.deployment}",
        ),
    message:
        "Timing some probes of {wildcards.deployment} again"
