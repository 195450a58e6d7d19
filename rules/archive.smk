# One file that others can check: results/<tree>.tar.zst.
#
# It holds what is there of the tree, that of other targets (longrun, ablations, probing), too.

from functools import cache

TELL_ONCE = cache(logger.warning)  # every plan asks for the parameters


# The results tree, how each of its files was made, and the code that made them: `overlayccl verify` checks it.
rule archive:
    input:
        rules.all.input,
    output:
        archive=f"{RESULTS}.tar.zst",
    log:
        f"{RESULTS}.archive.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        **stage(
            "archive",
            compared={"others": left_by_others},
            tree=RESULTS,
            said=lambda wildcards: PIPELINE.said(
                workflow.config_settings.config, tell=TELL_ONCE
            ),
        ),
    message:
        "Archiving {params.tree}"
    shell:
        STAGE
