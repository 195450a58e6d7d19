# One file that others can check: results/<tree>.tar.zst.
#
# It holds what is there of the tree, that of other targets (longrun, ablations, probing), too.

from functools import cache

TELL_ONCE = cache(logger.warning)  # every plan asks for the parameters


rule archive:
    """The results tree, how each of its files was made, and the code that made them: `overlayccl verify` checks it."""
    input:
        rules.all.input,
    output:
        f"{RESULTS}.tar.zst",
    log:
        f"{RESULTS}.archive.log",
    localrule: True
    conda:
        "../envs/local.yaml"
    threads: 1
    resources:
        mem_mb=2000,
    params:
        code=code("archive"),
        tree=lambda wildcards, output: output[0].removesuffix(".tar.zst"),
        others=left_by_others,
        said=lambda wildcards: PIPELINE.said(
            workflow.config_settings.config,
            [rule.name for rule in workflow.rules if "machine" in rule.resources],
            tell=TELL_ONCE,
        ),
    message:
        "Archiving {params.tree}"
    shell:
        "python -P -m workflow_scripts.archive --tree {params.tree} --said {params.said:q}"
        " --outputs {output} --log {log}"
