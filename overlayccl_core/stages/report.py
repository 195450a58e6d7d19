"""Rule report: the page of a run, from the tables in its folder."""

from pathlib import Path

from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write report.html."""
    (path,) = job.outputs["page"]
    usd = job.option("node_usd_per_hour")
    tree = Tree(
        path=Path(job.option("tree")),
        files=frozenset(job.all_inputs),
        node_usd_per_hour=float(usd) if usd else None,
    )
    job.write_text(path, page((tree,)))
