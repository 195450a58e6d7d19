"""The framework's own ways to train, each an arm: all rivals of this kind are declared here and nowhere else.

A row of WAYS is an arm everywhere: it is trained, it is a rival, and the report has its words. Buckets of DDP are a
model's own (`ddp_arm`), so those arms are made from the name. docs/torch-options.md lists the libraries' other
options, and the reasons against them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

_DDP = "ddp_"


class Framework(StrEnum):
    """A way to train; backends/torchdist/frameworks.py has a step of each."""

    DDP = "DDP"  # torch.nn.parallel.DistributedDataParallel
    FSDP = "FSDP"  # torch.distributed.fsdp.fully_shard
    PIPELINING = "pipelining"  # torch.distributed.pipelining
    TENSOR = "tensor parallel"  # functions of autograd, as in Megatron-LM
    EXPERTS = "experts"  # functions of autograd, as in public mixtures of experts
    CONTEXT = "context parallel"  # functions of autograd around attention

    @property
    def has_whole_models(self) -> bool:
        """Whether every rank begins with the whole model, not with its part."""
        return self in (Framework.DDP, Framework.FSDP)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkArm:
    """A setting of a framework.

    Attributes:
        words: Its name for people.
        settings: Arguments of the framework's step.
        least_microbatches: With fewer it equals another arm, or cannot run.
        least_nodes: With fewer it equals another arm.
        divided: A field of the model that the ranks have to divide: each takes as many (`heads`).
        counts: Whether it sends counts ahead of rows: needless where they never change.
        only_if, not_if: A known way: it is an arm where that is the bench's best of its Problem, or is not.
    """

    name: str
    framework: Framework
    words: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    least_microbatches: int = 1
    least_nodes: int = 1
    divided: str = ""
    counts: bool = False
    only_if: str = ""
    not_if: str = ""


def _way(framework: Framework, name: str, *words: str, least: int = 1, **settings: Any) -> FrameworkArm:
    return FrameworkArm(
        name=name, framework=framework, words=", ".join(words), settings=settings, least_microbatches=least
    )


def _experts(
    name: str, *words: str, nodes: int = 1, counts: bool = False, exchange: str = "padded", **settings: Any
) -> FrameworkArm:
    given = {"exchange": exchange, "entropy": "two", **settings}
    way = _way(Framework.EXPERTS, name, "experts by hand", *words, **given)
    return replace(way, least_nodes=nodes, counts=counts)


def _exchange(name: str, *words: str, **settings: Any) -> tuple[FrameworkArm, FrameworkArm]:
    """Exchange and loss are calls apart: each exchange is tried with the bench's best loss of these two."""
    two = _experts(name, *words, **settings)
    logits = _experts(f"{name}_logits", *words, LOGITS, entropy="logits", **settings)
    return replace(two, not_if=GATHER_LOGITS), replace(logits, only_if=GATHER_LOGITS)


def _context(name: str, *words: str, divided: str = "", **settings: Any) -> FrameworkArm:
    return replace(_way(Framework.CONTEXT, name, CONTEXT, *words, **settings), divided=divided)


_fsdp = partial(_way, Framework.FSDP)
FSDP = "torch FSDP"
KEPT, JOINED, AHEAD = "kept after forward", "all units in one", "gathered ahead"
LAST_KEPT, ONCE = "the last unit kept after forward", "gradients once a step"
BEHIND = "sums behind weight gradients"
PADDED, EXACT, GATHERED, LOGITS = "padded rows", "used rows alone", "tokens gathered", "logits gathered"
GATHER_LOGITS = "gather_logits"  # of the strategies of dist_ce
CONTEXT, IN_ONE = "context parallel by hand", "keys and values in one"
HEADS = "heads for positions (Ulysses)"
BY_DDP = "gradients by DDP"
WAYS = {
    way.name: way
    for way in (
        _way(Framework.DDP, "ddp", "torch DDP as it comes"),
        _way(Framework.DDP, "ddp_batched", "torch DDP", "batched copies", batched_grad_copy=True),
        _fsdp("fsdp", FSDP),
        _fsdp("fsdp_ahead", FSDP, AHEAD, ahead=True),
        _fsdp("fsdp_joined", FSDP, JOINED, joined=True),
        _fsdp("fsdp_kept", FSDP, KEPT, kept=True),
        _fsdp("fsdp_kept_ahead", FSDP, KEPT, AHEAD, kept=True, ahead=True),
        _fsdp("fsdp_kept_joined", FSDP, KEPT, JOINED, kept=True, joined=True),
        _fsdp("fsdp_last_kept", FSDP, LAST_KEPT, last_kept=True),
        _fsdp("fsdp_once", FSDP, ONCE, once=True, least=2),
        _fsdp("fsdp_joined_once", FSDP, JOINED, ONCE, joined=True, once=True, least=2),
        _fsdp("fsdp_kept_once", FSDP, KEPT, ONCE, kept=True, once=True, least=2),
        _fsdp("fsdp_kept_joined_once", FSDP, KEPT, JOINED, ONCE, kept=True, joined=True, once=True, least=2),
        _way(Framework.PIPELINING, "gpipe", "torch pipelining", "GPipe", schedule="ScheduleGPipe"),
        _way(Framework.PIPELINING, "1f1b", "torch pipelining", "1F1B", schedule="Schedule1F1B", least=2),
        _way(Framework.TENSOR, "tensor_parallel", "tensor parallel by hand", hidden=False),
        _way(Framework.TENSOR, "tensor_parallel_async", "tensor parallel by hand", BEHIND, hidden=True),
        _experts("experts", PADDED),
        _experts("experts_three", PADDED, "loss in three all_reduces", entropy="three"),
        _experts("experts_logits", PADDED, LOGITS, entropy="logits"),
        *_exchange("experts_ddp", PADDED, BY_DDP, ddp=True),
        *_exchange("experts_functional", PADDED, "torch's functional all_to_all", exchange="functional"),
        *_exchange("experts_two_steps", PADDED, "within and across nodes", nodes=2, exchange="two_steps"),
        *_exchange("experts_exact", EXACT, exchange="exact", counts=True),
        *_exchange(
            "experts_exact_gathered", EXACT, "counts gathered", exchange="exact_gathered", counts=True
        ),
        *_exchange("experts_gathered", GATHERED, exchange="gathered"),
        *_exchange(
            "experts_gathered_joined", GATHERED, "routes in one with them", exchange="gathered_joined"
        ),
        _context("context_parallel", exchange="gathered"),
        _context("context_parallel_joined", IN_ONE, exchange="joined"),
        _context("context_parallel_ddp", IN_ONE, BY_DDP, exchange="joined", ddp=True),
        _context("context_parallel_ulysses", HEADS, divided="heads", exchange="ulysses"),
        _context(
            "context_parallel_ulysses_ddp", HEADS, BY_DDP, divided="heads", exchange="ulysses", ddp=True
        ),
    )
}
MEANING = {
    Framework.DDP: "torch's own data parallelism (DistributedDataParallel), with these settings",
    Framework.FSDP: "torch's own data parallelism with parameters in shards (fully_shard), with these settings",
    Framework.PIPELINING: "torch's own pipeline schedule, gradients of its stages averaged by DDP",
    Framework.TENSOR: "functions of autograd that sum over ranks, as in Megatron-LM, the parts of a block in one",
    Framework.EXPERTS: "functions of autograd that bring rows to their experts and back, as in public libraries",
    Framework.CONTEXT: "functions of autograd around attention: keys and values gathered, or heads for positions",
}


def ddp_arm(buckets_mib: float | Sequence[float]) -> str:
    """Return `ddp_25`: DDP with a bucket size in MiB; `ddp_1_2_4`: a size a bucket, the last for all others."""
    sizes = buckets_mib if isinstance(buckets_mib, Sequence) else (buckets_mib,)
    return _DDP + "_".join(f"{mib:g}" for mib in sizes)


def framework_arm(arm: str) -> FrameworkArm | None:
    """Return the framework's arm of a name; None for any other."""
    if (way := WAYS.get(arm)) is not None or not arm.startswith(_DDP):
        return way
    sizes = arm.removeprefix(_DDP).split("_")
    caps = [float(mib) for mib in sizes]
    caps_of: dict[str, Any] = {"bucket_cap_mb": caps[0]} if len(caps) == 1 else {"bucket_cap_mb_list": caps}
    return FrameworkArm(
        name=arm,
        framework=Framework.DDP,
        words=f"torch DDP, {', '.join(sizes)} MiB",
        settings={**caps_of, "gradient_as_bucket_view": True},
    )


def arms_of_framework(framework: Framework) -> tuple[str, ...]:
    return tuple(name for name, way in WAYS.items() if way.framework is framework)
