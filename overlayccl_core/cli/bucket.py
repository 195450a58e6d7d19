"""`overlayccl bucket`: which gradients to reduce together on this deployment, and what that is worth."""

import argparse
import json
from typing import Any

from rich.table import Table

from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import between, console, ms, percent, plain_table, print_text
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.program.kinds import FLOATS, DType
from overlayccl_core.search.buckets.comparison import (
    DDP_DEFAULT,
    Comparison,
    compared,
    largest_probed_bytes,
)
from overlayccl_core.search.buckets.costs import PROBLEM
from overlayccl_core.search.buckets.gradients import (
    ACCEPTED,
    ACCEPTED_READY,
    all_at_once,
    in_order_of_readiness,
    read_ready,
    read_sizes,
    spread_by_bytes,
)
from overlayccl_core.search.buckets.plans import Plan, saved_us
from overlayccl_core.tables.probes import PROBES

NO_COMPUTATION = (
    "No ready times (--ready FILE or --backward-ms X): this model sees no computation that a bucket could hide "
    "behind, and so one buffer is its answer"
)
BUT_FOR_LARGE = ", but for tensors so large that packing them costs more than another call"
DDP_SOURCE = (
    f"{DDP_DEFAULT}: buckets closed by the tensor that reaches 25 MiB, the first at 1 MiB, in the order of "
    "readiness (torch 2.13, DistributedDataParallel and compute_bucket_assignment_by_size in reducer.cpp)."
)
CAPS_SHOWN = 12
TENSORS_WIDTH = 36


def add(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "bucket",
        help="which gradients to reduce together, and what it is worth against 25 MiB",
        description="Choose buckets for the all_reduce of a model's gradients on this deployment, by the "
        "prices that its probes gave. Starts no ranks.",
    )
    parser.add_argument("--sizes", metavar="FILE", required=True, help=f"the gradients; {ACCEPTED}")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--ready", metavar="FILE", help=f"when each gradient is ready; {ACCEPTED_READY}")
    when.add_argument(
        "--backward-ms",
        metavar="X",
        type=float,
        help="time of the backward pass: gradients become ready in it in proportion to their bytes, the last "
        "of --sizes first",
    )
    parser.add_argument(
        "--dtype",
        choices=[d.value for d in FLOATS],
        default=DType.FLOAT32.value,
        help="of the gradients (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="everything as JSON, for programs to read")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0; ValueError for files that do not fit, and where nothing was fitted."""
    dtype = DType(arguments.dtype)
    sizes, ready = read_sizes(arguments.sizes, dtype)
    if arguments.ready:
        ready = read_ready(arguments.ready)
    elif arguments.backward_ms is not None:
        ready = spread_by_bytes(sizes, 1e3 * arguments.backward_ms)
    gradients = in_order_of_readiness(sizes, all_at_once(sizes) if ready is None else ready)
    where = context(arguments)
    comparison = compared(
        gradients,
        theta_of(*where.fitted()),
        ranks=where.deployment.ranks,
        ranks_per_node=where.deployment.ranks_per_node,
        dtype=dtype,
    )
    answer = _Answer(where, comparison, timed=ready is not None)
    if arguments.json:
        print(json.dumps(answer.to_json(), indent=1))
    else:
        answer.show()
    return 0


class _Answer:
    """A comparison as people and programs read it."""

    def __init__(self, where: Context, compared: Comparison, *, timed: bool) -> None:
        self.where, self.compared, self.timed = where, compared, timed

    def show(self) -> None:
        """Buckets, comparison, and how to use them; fits 80 columns."""
        gradients, buckets = self.compared.gradients, self.compared.best.buckets
        total = sum(g.bytes for g in gradients)
        one = len(buckets) == 1
        print_text(
            f"{len(gradients)} gradients, {bytes_text(total)}, on {self.where.deployment.name} "
            f"({self.where.deployment.ranks} ranks): {'one buffer' if one else f'{len(buckets)} buckets'}"
        )
        if not self.timed:
            print_text(f"{NO_COMPUTATION}{'' if one else BUT_FOR_LARGE}.")
        console().print(self._bucket_table())
        console().print(self._comparison())
        for line in (*self._how_to_read(), *self._how_to_use(), *self._warnings()):
            print_text(line)

    def _bucket_table(self) -> Table:
        table = plain_table(None)
        table.add_column("", justify="right", no_wrap=True)
        table.add_column("bucket of", no_wrap=True, overflow="ellipsis", max_width=TENSORS_WIDTH)
        for header in ("size", "ready", "start", "end ms"):
            table.add_column(header, justify="right", no_wrap=True)
        for number, b in enumerate(self.compared.best.buckets, 1):
            more = f" .. {b.tensors[-1]} ({len(b.tensors)})" if len(b.tensors) > 1 else ""
            times = (ms(us) for us in (b.ready_us, b.start_us, b.end_us))
            table.add_row(str(number), f"{b.tensors[0]}{more}", bytes_text(b.bytes), *times)
        return table

    def _comparison(self) -> Table:
        table = plain_table(None)
        table.add_column("rule", no_wrap=True)
        for header in ("buckets", "predicted end ms", "exposed ms", "loss"):
            table.add_column(header, justify="right", no_wrap=True)
        best = self.compared.best
        for plan in (best, *self.compared.others):
            table.add_row(
                plan.name,
                str(len(plan.buckets)),
                f"{ms(plan.end_us)} ({ms(plan.low_us)}..{ms(plan.high_us)})",
                ms(plan.end_us - self.compared.last_ready_us),
                percent(plan.end_us / best.end_us - 1),
                style="bold" if plan is best else None,
            )
        return table

    def _how_to_read(self) -> list[str]:
        return [
            "end: after the backward pass began, in brackets its 10%..90% range; exposed: after the last gradient "
            "was ready; loss: end over the best end.",
            DDP_SOURCE,
        ]

    def _how_to_use(self) -> list[str]:
        them = self.compared
        caps, ddp, best = them.bucket_cap_mb_list, them.ddp, them.best
        shown = ", ".join(caps[:CAPS_SHOWN]) + (", ... (all: --json)" if len(caps) > CAPS_SHOWN else "")
        gain = between(*saved_us(ddp, best))
        return [
            f"Worth against 25 MiB: {gain} ms of {ms(ddp.end_us)} ({percent(1 - best.end_us / ddp.end_us)}).",
            f"In torch: DistributedDataParallel(model, bucket_cap_mb={them.bucket_cap_mb}), predicted "
            f"{percent(them.capped.end_us / best.end_us - 1)} behind the best; or these very buckets, where "
            f"it has the argument: bucket_cap_mb_list=[{shown}].",
            f"In a recipe: the rule merge with the knob {them.knob}, predicted "
            f"{percent(them.knobbed.end_us / best.end_us - 1)} behind the best.",
        ]

    def _warnings(self) -> list[str]:
        probed = self.probed_bytes()
        largest = max(b.bytes for b in self.compared.best.buckets)
        if probed is None or largest <= probed:
            return []
        return [
            f"The probes here reach an all_reduce of {bytes_text(probed)}: prices of larger buckets (the largest "
            f"is {bytes_text(largest)}) are extrapolated."
        ]

    def probed_bytes(self) -> int | None:
        """The largest all_reduce that was measured over all ranks; None: the probes are not there."""
        probes = self.where.table(PROBES, "probes")
        return None if probes is None else largest_probed_bytes(probes, self.where.deployment.ranks)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data; times in us since the backward pass began."""
        return {
            "deployment": self.where.deployment.name,
            "problem": PROBLEM,
            "ready_times": self.timed,
            "last_ready_us": self.compared.last_ready_us,
            "best": _plan_json(self.compared.best),
            "others": [_plan_json(plan) for plan in self.compared.others],
            "bucket_cap_mb": float(self.compared.bucket_cap_mb),
            "bucket_cap_mb_list": [float(cap) for cap in self.compared.bucket_cap_mb_list],
            "merge_knob": self.compared.knob,
            "probed_bytes": self.probed_bytes(),
        }


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "end_us": plan.end_us,
        "low_us": plan.low_us,
        "high_us": plan.high_us,
        "buckets": [
            {
                "tensors": list(b.tensors),
                "bytes": b.bytes,
                "ready_us": b.ready_us,
                "start_us": b.start_us,
                "end_us": b.end_us,
            }
            for b in plan.buckets
        ],
    }
