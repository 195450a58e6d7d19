"""Rule probing_page: the page of the models' chosen probes beside the sweep."""

from overlayccl_core.report.probing import page
from overlayccl_core.tables.probing import PROBING
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write probing.html."""
    (path,) = job.outputs["page"]
    job.write_text(path, page(job.read(PROBING), job.option("name")))
