"""One arm of a comparison on one rank: its parameters, its optimizer, its modules, and one step of training."""

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

import torch

from overlayccl_core.backends.rank import Deployed, Rank
from overlayccl_core.configuration.models import Model
from overlayccl_core.measuring.frameworks import framework_arm
from overlayccl_core.training.driver import MEANWHILE, SiteModule, run_step
from overlayccl_core.training.pieces import Batch, pieces_of
from overlayccl_core.training.plan import Arm, ArmSite
from overlayccl_core.training.segments import Tensor

LEARNING_RATE = 1e-3
FUSED = ("cpu", "cuda")  # devices that torch itself has an AdamW of one kernel for


class Modules:
    """The connected modules of an arm, by site; loaded once, used by every seed."""

    def __init__(self, sites: Sequence[ArmSite], modules: Mapping[str, ModuleType | Deployed]) -> None:
        self.sites = sites
        self.modules = modules
        self.files = {site: one if isinstance(one, ModuleType) else one.file for site, one in modules.items()}

    @classmethod
    def load(cls, arm: Arm, rank: Rank, name: str) -> "Modules":
        """Import and connect them, on every rank in the same order; `name` is theirs alone."""
        return cls(arm.sites, {site.site: _loaded(site, rank, f"{name}_{site.site}") for site in arm.sites})

    @property
    def overlap(self) -> bool:
        """Whether a module starts a collective before it has read all that it reads."""
        return any(one.early for one in self.sites)

    @property
    def lets_work(self) -> bool:
        """Whether a module lets the model work while a call is in flight."""
        return any(hasattr(file, MEANWHILE) for file in self.files.values())

    def fresh(self) -> list[SiteModule]:
        """Generators for one step."""
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
        return rank.load_deployed(path, name, site.members, site.case)
    return rank.load(path, name, site.members)


class ArmState:
    """The model of an arm on this rank, from one seed on."""

    def __init__(self, arm: Arm, model: Model, modules: Modules, rank: Rank, *, seed: int) -> None:
        self.arm = arm
        self.modules = modules
        cls = pieces_of(model)
        full = cls.full_parameters(model, seed)
        self.framework = None
        way = framework_arm(arm.name)
        place = (0, 1) if way is not None and way.framework.has_whole_models else (rank.index, rank.ranks)
        self.pieces = cls(model, full, *place, rank.device)
        if way is not None:
            module = self.pieces.module()
            self.framework = rank.framework_step(module, way)
            self.pieces.parameters = module.leaves()  # as the framework has them
        self.optimizer = _optimizer(self.pieces.parameters.values(), rank)

    def gradients(self, batch: Batch) -> Tensor | None:
        """Forward and backward of one step: float32[microbatches], the mean loss of each on this rank.

        They are where the step ran, and nobody has waited for them. None where others compute them.
        """
        self.optimizer.zero_grad(set_to_none=True)
        microbatches = self.pieces.split(batch, self.arm.microbatches)
        if self.framework is not None:
            return self.framework(microbatches)
        self.pieces.leaves_work = self.modules.lets_work
        step = self.pieces.step(microbatches, early=self.modules.overlap)
        run_step(self.modules.fresh(), step.segments())
        return torch.stack(list(step.losses.values())) if step.losses else None

    def step(self, batch: Batch) -> Tensor | None:
        """One step with its optimizer; losses as `gradients` gives them."""
        losses = self.gradients(batch)
        self.optimizer.step()
        return losses


def _optimizer(parameters: Iterable[Tensor], rank: Rank) -> torch.optim.Optimizer:
    """AdamW: in one kernel where torch has it for the device, else as torch thinks best.

    Where calls are recorded first, the number of a step is a value on the device (`capturable`): what is made of a
    number of Python's would be sent there in each step.
    """
    kinds: dict[type, list[Tensor]] = {}  # the framework has some in shards: a kernel takes one kind
    for parameter in parameters:
        kinds.setdefault(type(parameter), []).append(parameter)
    groups = [{"params": alike} for alike in kinds.values()]
    fused = True if torch.device(rank.device).type in FUSED else None
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=fused, capturable=rank.is_lazy)


def mean_loss(losses: Tensor) -> float:
    """The mean of what a step gave, fetched from where it is."""
    each = losses.tolist()
    return float(sum(each) / len(each))


def unsharded_gradients(
    model: Model, batches: Sequence[Batch], *, seed: int, rank: Rank | None = None
) -> Mapping[str, Tensor]:
    """Gradients of the mean loss over batches, one a replica, of the whole model, computed on this rank alone.

    They come on the CPU. rank: on whose device they are computed, where the batches are (None: on the CPU, too).
    """
    cls = pieces_of(model)
    pieces = cls(model, cls.full_parameters(model, seed), device=rank.device if rank else "cpu")
    for batch in batches:
        (pieces.whole(batch) / len(batches)).backward()
        if rank:
            rank.end_call()  # one graph for all batches
    return {name: parameter.grad.cpu() for name, parameter in pieces.parameters.items()}
