"""Rule ablation_page: the page of searches side by side."""

from overlayccl_core.report.ablations import page
from overlayccl_core.tables.ablations import ABLATION_CURVES, ABLATION_PLACES, ABLATIONS
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write ablations.html."""
    (path,) = job.outputs["page"]
    job.write_text(
        path,
        page(job.read(ABLATION_CURVES), job.read(ABLATION_PLACES), job.read(ABLATIONS), job.option("name")),
    )
