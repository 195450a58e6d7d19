"""weigh_parts: what each factor gives of the gain of what is deployed, of all models. Needs no ranks."""

from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.part_arms import compared
from overlayccl_core.evidence.parts import PartTables, decomposition, part_rows
from overlayccl_core.report.parts import page, sentence
from overlayccl_core.tables.decompose import PART_ARMS, PART_STAMPS, PART_STEPS, PARTS
from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write the table parts, and parts.html."""
    splits = job.read(SPLITS)
    tables = PartTables(
        arms=job.read_all(PART_ARMS), steps=job.read_all(PART_STEPS), stamps=job.read_all(PART_STAMPS)
    )
    fingerprint = one_fingerprint({"part_steps": tables.steps}, "the rule time_parts") or ""
    models = splits["model"].unique(maintain_order=True)
    made = [decomposition(compared(model, splits), tables.of(model)) for model in models]
    asked = Settings.from_part(job.option("settings")).decompose.half_width
    for one in made:
        print(sentence(one, asked), flush=True)  # onto the screen, as the end of a run
    job.write({PARTS: [row for one in made for row in part_rows(one, fingerprint)]})
    (path,) = job.outputs["page"]
    job.write_text(path, page(made, asked, job.option("name")))
