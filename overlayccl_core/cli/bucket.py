"""`overlayccl bucket`: which gradients to reduce together, and what it is worth against DDP's default.

Choose buckets for the all_reduce of a model's gradients on this deployment, by the prices that its probes gave.
Starts no ranks.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

import polars as pl
from rich.table import Table

from overlayccl_core.cli.context import Context, context
from overlayccl_core.cli.render import between, console, ms, percent, plain_table, print_text
from overlayccl_core.configuration.sizes import bytes_text
from overlayccl_core.costmodel.beside import Beside
from overlayccl_core.evidence.prices import theta_of
from overlayccl_core.program.kinds import FLOATS, DType
from overlayccl_core.search.buckets.comparison import DDP_DEFAULT, Comparison, compared, largest_probed_bytes
from overlayccl_core.search.buckets.costs import PROBLEM
from overlayccl_core.search.buckets.gradients import (
    ACCEPTED,
    ACCEPTED_READY,
    in_order_of_readiness,
    read_ready,
    read_sizes,
    spread_by_bytes,
)
from overlayccl_core.search.buckets.plans import SHOWN, Plan, saved_us
from overlayccl_core.tables.beside import BESIDE
from overlayccl_core.tables.probes import PROBES

NO_COMPUTATION = (
    "No ready times (--ready FILE or --backward-ms X): this model sees no computation that a bucket could hide "
    "behind, and so one buffer is its answer"
)
BUT_FOR_LARGE = ", but for tensors so large that packing them costs more than another call"
DDP_SOURCE = (
    f"{DDP_DEFAULT}: no argument; buckets closed by the tensor that reaches 25 MiB, the first at 1 MiB, in the "
    "order of readiness (torch 2.13, DistributedDataParallel, compute_bucket_assignment_by_size in reducer.cpp). "
    "bucket_cap_mb=25 is another rule: its first bucket has up to 25 MiB, too."
)
DDP = "DistributedDataParallel(model{})"
OF_LIST = (
    "torch fills a list in the order of readiness from the second step on; with find_unused_parameters it keeps "
    "the order of the parameters, and the list means other buckets."
)
NO_ADVICE = "Advice: none. In a training step gradients become ready one after another: say when."
CAPS_SHOWN = 12
TENSORS_WIDTH = 36


def add(parser: argparse.ArgumentParser) -> None:
    """Declare its arguments."""
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


def run(arguments: argparse.Namespace) -> int:
    """Return 0. ValueError for files not fitting each other, and before a fit."""
    dtype = DType(arguments.dtype)
    sizes, ready = read_sizes(arguments.sizes, dtype)
    if arguments.ready:
        ready = read_ready(arguments.ready)
    elif arguments.backward_ms is not None:
        ready = spread_by_bytes(sizes, 1e3 * arguments.backward_ms)
    left_out = tuple(name for name, size in sizes.items() if not size)
    gradients = in_order_of_readiness(sizes, dict.fromkeys(sizes, 0.0) if ready is None else ready)
    where = context(arguments)
    theta, fidelity = where.fitted()
    beside = where.table(BESIDE, "beside")
    if beside is None:
        raise ValueError(where.unfitted)
    comparison = compared(
        gradients,
        theta_of(theta, fidelity),
        Beside(beside.iter_rows(named=True)),
        ranks=where.deployment.ranks,
        ranks_per_node=where.deployment.ranks_per_node,
        dtype=dtype,
    )
    error = fidelity.filter(pl.col("problem").is_null())["median_rel_error"][0]
    answer = _Answer(where, comparison, timed=ready is not None, left_out=left_out, error=error)
    if arguments.json:
        print(json.dumps(answer.to_json(), indent=1))
    else:
        answer.show()
    return 0


class _Answer:
    """A comparison for people and for programs.

    Attributes:
        left_out: Tensors without elements.
        error: The model's median error on Programs outside its fit.
    """

    def __init__(
        self, where: Context, compared: Comparison, *, timed: bool, left_out: tuple[str, ...], error: float
    ) -> None:
        self.where, self.compared, self.timed = where, compared, timed
        self.left_out, self.error = left_out, error
        named = {
            compared.ddp: "",
            compared.capped: f", bucket_cap_mb={compared.bucket_cap_mb}",
            compared.best: f", bucket_cap_mb_list=[{_shown(compared.bucket_cap_mb_list)}]",
        }
        self.advised = DDP.format(named[compared.advice])

    def show(self) -> None:
        """Print buckets, comparison, and how to use them; fits 80 columns."""
        gradients, buckets = self.compared.gradients, self.compared.best.buckets
        total = sum(g.bytes for g in gradients)
        one = len(buckets) == 1
        print_text(
            f"{len(gradients)} gradients, {bytes_text(total)}, on {self.where.deployment.name} "
            f"({self.where.deployment.ranks} ranks): {'one buffer' if one else f'{len(buckets)} buckets'}"
        )
        if self.left_out:
            print_text(f"Left out, as they have no elements: {', '.join(self.left_out)}.")
        if not self.timed:
            print_text(f"{NO_COMPUTATION}{'' if one else BUT_FOR_LARGE}.")
        console().print(self._bucket_table())
        console().print(self._comparison())
        for line in (*self._how_to_read(), *self._how_to_use(), *self._warnings()):
            print_text(line)

    def _bucket_table(self) -> Table:
        table = plain_table(None, ">", "bucket of", ">size", ">ready", ">start", ">end ms")
        table.columns[1].overflow, table.columns[1].max_width = "ellipsis", TENSORS_WIDTH
        for number, b in enumerate(self.compared.best.buckets, 1):
            more = f" .. {b.tensors[-1]} ({len(b.tensors)})" if len(b.tensors) > 1 else ""
            times = (ms(us) for us in (b.ready_us, b.start_us, b.end_us))
            table.add_row(str(number), f"{b.tensors[0]}{more}", bytes_text(b.bytes), *times)
        return table

    def _comparison(self) -> Table:
        table = plain_table(None, "rule", ">buckets", ">predicted end ms", ">exposed ms", ">loss")
        best = self.compared.best
        for plan in (best, *self.compared.others):
            table.add_row(
                plan.name,
                str(len(plan.buckets)),
                f"{ms(plan.end_us)} ({ms(plan.low_us)}..{ms(plan.high_us)})",
                ms(plan.end_us - self.compared.last_ready_us),
                self._loss(plan),
                style="bold" if plan is best else None,
            )
        return table

    def _loss(self, plan: Plan) -> str:
        return percent(plan.end_us / self.compared.best.end_us - 1)

    def _how_to_read(self) -> list[str]:
        return [
            "end: after the backward pass began, in brackets its 10%..90% range, with what calls in flight take "
            "of the core that computes; exposed: beyond the backward pass by itself; loss: end over the best end.",
            DDP_SOURCE,
        ]

    def _how_to_use(self) -> list[str]:
        them = self.compared
        return [
            self._advice(),
            self._error(),
            f"Other ways to say it: {DDP.format(f', bucket_cap_mb={them.bucket_cap_mb}')}, predicted "
            f"{self._loss(them.capped)} behind the best; the best buckets themselves, where torch has the "
            f"argument: bucket_cap_mb_list=[{_shown(them.bucket_cap_mb_list)}]. {OF_LIST}",
            f"In a recipe: the rule merge with the knob {them.knob}, predicted {self._loss(them.knobbed)} behind "
            "the best.",
        ]

    def _advice(self) -> str:
        """Advise, with the reason: the difference to torch's default beside the model's resolution."""
        ddp, advice = self.compared.ddp, self.compared.advice
        if not self.timed:
            return NO_ADVICE
        other = self.compared.best if advice is ddp else advice
        part = percent(1 - other.end_us / ddp.end_us)
        worth = f"{between(*saved_us(ddp, other))} ms of {ms(ddp.end_us)} ({part})"
        if advice is ddp:
            best = (
                f"The best buckets are predicted to end {worth} earlier: the model cannot tell that from nothing."
                if other.end_us < ddp.end_us * (1 - SHOWN)
                else "No buckets are predicted to end earlier."
            )
            return f"Advice: keep DDP as it comes, {self.advised}. {best}"
        return (
            f"Advice: {self.advised}. It is predicted to end {worth} earlier than DDP as it comes, more than the "
            "model's error. Time both before you keep it."
        )

    def _error(self) -> str:
        best = self.compared.best
        return (
            "All of this is predicted. The model's error: half of its prices of Programs that it was not fitted on "
            f"are off by more than {percent(self.error)}; of 10 times like the best's {ms(best.end_us)} ms, 8 are "
            f"between {ms(best.low_us)} and {ms(best.high_us)}. It tells two rules apart where these ranges do not "
            "meet."
        )

    def _warnings(self) -> list[str]:
        probed = self.probed_bytes()
        largest = max(b.bytes for b in self.compared.best.buckets)
        if probed is None or largest <= probed:
            return []
        return [
            f"The probes here reach an all_reduce of {bytes_text(probed)}: prices of larger buckets (the largest "
            f"is {bytes_text(largest)}) are extrapolated.",
        ]

    def probed_bytes(self) -> int | None:
        """Return the largest all_reduce measured over all ranks; None without probes."""
        probes = self.where.table(PROBES, "probes")
        return None if probes is None else largest_probed_bytes(probes, self.where.deployment.ranks)

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain data; times in us since the backward pass began."""
        return {
            "deployment": self.where.deployment.name,
            "problem": PROBLEM,
            "ready_times": self.timed,
            "left_out": list(self.left_out),
            "advice": self.advised if self.timed else None,
            "model_error": self.error,
            "last_ready_us": self.compared.last_ready_us,
            "best": _plan_json(self.compared.best),
            "others": [_plan_json(plan) for plan in self.compared.others],
            "bucket_cap_mb": float(self.compared.bucket_cap_mb),
            "bucket_cap_mb_list": [float(cap) for cap in self.compared.bucket_cap_mb_list],
            "merge_knob": self.compared.knob,
            "probed_bytes": self.probed_bytes(),
        }


def _shown(caps: tuple[str, ...]) -> str:
    return ", ".join(caps[:CAPS_SHOWN]) + (", ... (all: --json)" if len(caps) > CAPS_SHOWN else "")


def _plan_json(plan: Plan) -> dict[str, Any]:
    return asdict(plan)
