"""One arm of a comparison on one rank: its parameters, its optimizer, its modules, and one step of training."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType

import torch

from overlayccl_core.backends.rank import Deployed, Rank
from overlayccl_core.configuration.models import Model
from overlayccl_core.emit.deployed_case import CHOSEN
from overlayccl_core.measuring.frameworks import framework_arm
from overlayccl_core.step.driver import MEANWHILE, SiteModule, run_step
from overlayccl_core.step.segment import StepSegment
from overlayccl_core.training.pieces import Batch, Pieces, pieces_of
from overlayccl_core.training.plan import Arm, ArmSite
from overlayccl_core.training.segments import Tensor, at_once

LEARNING_RATE = 1e-3
Around = Callable[[Iterator[StepSegment]], Iterator[StepSegment]]  # the segments of a step, changed
FUSED = ("cpu", "cuda")  # devices with a fused AdamW in torch itself


class Modules:
    """The connected modules of an arm, by site; loaded once, used by every seed."""

    def __init__(self, sites: Sequence[ArmSite], modules: Mapping[str, ModuleType | Deployed]) -> None:
        self.sites = sites
        self.modules = modules
        self.files = {site: one if isinstance(one, ModuleType) else one.file for site, one in modules.items()}

    @classmethod
    def load(cls, arm: Arm, rank: Rank, name: str) -> "Modules":
        """Import and connect the modules, in the same order on every rank, under a unique `name`."""
        return cls(arm.sites, {site.site: _loaded(site, rank, f"{name}_{site.site}") for site in arm.sites})

    @property
    def overlap(self) -> bool:
        """Whether a module starts a collective before its last read."""
        return any(one.early for one in self.sites)

    @property
    def lets_work(self) -> bool:
        """Whether a module lets the model work while a call is in flight."""
        return any(hasattr(file, MEANWHILE) for file in self.files.values())

    def fresh(self) -> list[SiteModule]:
        """Return new generators for one step."""
        return [
            SiteModule(
                site=site.site,
                generator=getattr(self.modules[site.site], site.direction)(),
                read=self.modules[site.site].Read,
                shapes=dict(site.shapes),
                module=self.files[site.site],
            )
            for site in self.sites
        ]


def _loaded(site: ArmSite, rank: Rank, name: str) -> ModuleType | Deployed:
    path = rank.folder / site.module
    if site.deployed:
        return rank.load_deployed(path, name, site.members, site.case, CHOSEN)
    return rank.load(path, name, site.members)


class ArmState:
    """An arm's model, modules and optimizer on this rank, initialized from one seed.

    idle: Its steps after the first do the calls alone, on the values of the first.
    """

    def __init__(
        self, arm: Arm, model: Model, modules: Modules, rank: Rank, *, seed: int, idle: bool = False
    ) -> None:
        self.arm = arm
        self.modules = modules
        self.around: Around = partial(at_once, given={}) if idle else iter
        cls = pieces_of(model)
        full = cls.full_parameters(model, seed)
        self.framework = None
        way = framework_arm(arm.name)
        place = (0, 1) if way is not None and way.framework.has_whole_models else (rank.index, rank.ranks)
        self.pieces = cls(model, full, *place, rank.device)
        if way is not None:
            module = self.pieces.module()
            self.framework = rank.framework_step(module, way)
            self.pieces.parameters = module.leaves()  # as wrapped by the framework
        self.optimizer = _optimizer(self.pieces.parameters.values(), rank)

    def gradients(self, batch: Batch) -> Tensor | None:
        """Run forward and backward of one step.

        Returns:
            float32[microbatches]: The mean loss of each on this rank, on its device, not waited for. None if other
            ranks compute the losses.
        """
        self.optimizer.zero_grad(set_to_none=True)
        microbatches = self.pieces.split(batch, self.arm.microbatches)
        if self.framework is not None:
            return self.framework(microbatches)
        self.pieces.leaves_work = self.modules.lets_work
        step = self.pieces.step(microbatches, early=self.modules.overlap)
        run_step(self.modules.fresh(), self.around(step.segments()))
        return torch.stack(list(step.losses.values())) if step.losses else None

    def step(self, batch: Batch) -> Tensor | None:
        """Run one step with its optimizer; return the losses of `gradients`."""
        losses = self.gradients(batch)
        self.optimizer.step()
        return losses


def _optimizer(parameters: Iterable[Tensor], rank: Rank) -> torch.optim.Optimizer:
    """AdamW, fused on the devices of FUSED, else as torch chooses.

    On lazy devices the step count is a value on the device (`capturable`): values computed from a Python number
    would be sent there in each step.
    """
    kinds: dict[type, list[Tensor]] = {}  # a framework shards some parameters: a kernel takes one kind
    for parameter in parameters:
        kinds.setdefault(type(parameter), []).append(parameter)
    groups = [{"params": alike} for alike in kinds.values()]
    fused = True if torch.device(rank.device).type in FUSED else None
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=fused, capturable=rank.is_lazy)


def mean_loss(losses: Tensor) -> float:
    """Fetch the losses of a step from their device and return their mean."""
    each = losses.tolist()
    return float(sum(each) / len(each))


class Unsharded:
    """The whole model on this rank alone, trained as arms are, on the data of all replicas.

    Arms take over its decisions where they are compared to the last digits (`Pieces.settled`).
    """

    def __init__(self, model: Model, rank: Rank, *, seed: int) -> None:
        self.rank = rank
        self.pieces = _whole(model, seed, rank)
        self.optimizer = _optimizer(self.pieces.parameters.values(), rank)

    def settled(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return the batches, one of each replica, with its decisions."""
        return [self.pieces.settled(batch) for batch in batches]

    def step(self, batches: Sequence[Batch]) -> list[Batch]:
        """Take a step on the batches, one of each replica; return them with the decisions that it made."""
        settled = self.settled(batches)
        self.optimizer.zero_grad(set_to_none=True)
        _add_gradients(self.pieces, settled, self.rank)
        self.optimizer.step()
        return settled


def unsharded_gradients(
    model: Model, batches: Sequence[Batch], *, seed: int, rank: Rank | None = None
) -> Mapping[str, Tensor]:
    """Compute the whole model's gradients of the mean loss over batches on this rank alone.

    Args:
        batches: One of each replica, on the device of `rank`.
        rank: The rank to compute on (None: the CPU).

    Returns:
        Parameter -> gradient, on the CPU.
    """
    pieces = _whole(model, seed, rank)
    _add_gradients(pieces, batches, rank)
    return {name: parameter.grad.cpu() for name, parameter in pieces.parameters.items()}


def _add_gradients(pieces: Pieces[Model], batches: Sequence[Batch], rank: Rank | None) -> None:
    """Run forward and backward of the mean loss over batches."""
    for batch in batches:
        (pieces.whole(batch) / len(batches)).backward()
        if rank:
            rank.end_call()  # one graph for all batches


def _whole(model: Model, seed: int, rank: Rank | None) -> Pieces[Model]:
    cls = pieces_of(model)
    return cls(model, cls.full_parameters(model, seed), device=rank.device if rank else "cpu")
