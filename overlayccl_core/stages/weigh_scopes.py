"""weigh_scopes: where the order of arms alone, or beside a matmul, is another than in the step. Needs no ranks."""

import polars as pl

from overlayccl_core.evidence.scopes import arms, orders
from overlayccl_core.report.scopes import page, sentence
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.scopes import SCOPE_ORDERS, SCOPED_ARMS, SCOPES
from overlayccl_core.tables.steps import STAMPS, STEPS


def main(job: RuleJob) -> None:
    """Write the tables scoped_arms and scope_orders, and scopes.html."""
    steps = job.read_all(STEPS)
    rows = arms(steps, job.read_all(STAMPS), job.read(SCOPES))
    frame = pl.DataFrame(rows, schema=SCOPED_ARMS.schema)
    ordered = pl.DataFrame(list(orders(frame, steps)), schema=SCOPE_ORDERS.schema)
    print(sentence(ordered), flush=True)  # onto the screen, as the end of a run
    job.write({SCOPED_ARMS: frame, SCOPE_ORDERS: ordered})
    (path,) = job.outputs["page"]
    job.write_text(path, page(frame, ordered, job.option("name")))
