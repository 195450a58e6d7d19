"""One arm of a comparison on one rank: its parameters, its optimizer, its modules, and one step of training."""

from collections.abc import Mapping, Sequence
from types import ModuleType

import torch

from overlayccl_core.backends.rank import Deployed, Rank
from overlayccl_core.configuration.models import Model
from overlayccl_core.measuring.arms import is_framework
from overlayccl_core.training.driver import SiteModule, run_step
from overlayccl_core.training.pieces import Batch, pieces_of
from overlayccl_core.training.plan import Arm, ArmSite
from overlayccl_core.training.segments import Tensor

LEARNING_RATE = 1e-3


class Modules:
    """The connected modules of an arm, by site; loaded once, used by every seed."""

    def __init__(self, sites: Sequence[ArmSite], modules: Mapping[str, ModuleType | Deployed]) -> None:
        self.sites = sites
        self.modules = modules

    @classmethod
    def load(cls, arm: Arm, rank: Rank, name: str) -> "Modules":
        """Import and connect them, on every rank in the same order; `name` is theirs alone."""
        return cls(arm.sites, {site.site: _loaded(site, rank, f"{name}_{site.site}") for site in arm.sites})

    @property
    def overlap(self) -> bool:
        """Whether a module starts a collective before it has read all that it reads."""
        return any(one.early for one in self.sites)

    def fresh(self) -> list[SiteModule]:
        """Generators for one step."""
        return [
            SiteModule(
                site=site.site,
                generator=getattr(self.modules[site.site], site.direction)(),
                read=self.modules[site.site].Read,
                shapes=dict(site.shapes),
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
        if is_framework(arm.name):
            self.pieces = cls(model, full)
            module = self.pieces.module()
            self.framework = rank.framework_step(module, arm.name)
            self.pieces.parameters = module.leaves()  # as the framework has them
        else:
            self.pieces = cls(model, full, rank.index, rank.ranks)
        self.running: Sequence[SiteModule] = ()  # the modules of the step that runs
        kinds: dict[type, list[Tensor]] = {}  # the framework has some in shards: a kernel takes one kind
        for parameter in self.pieces.parameters.values():
            kinds.setdefault(type(parameter), []).append(parameter)
        groups = [{"params": alike} for alike in kinds.values()]
        self.optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=True)

    def gradients(self, batch: Batch) -> float | None:
        """Forward and backward of one step; the mean loss of this rank's batch, None where others compute it."""
        self.optimizer.zero_grad(set_to_none=True)
        microbatches = self.pieces.split(batch, self.arm.microbatches)
        if self.framework is not None:
            return self.framework(microbatches)
        step = self.pieces.step(microbatches, early=self.modules.overlap)
        self.running = self.modules.fresh()
        run_step(self.running, step.segments())
        return float(sum(step.losses.values()) / len(microbatches)) if step.losses else None

    def is_gathering(self) -> bool:
        """Whether a module runs that holds parameters of which this rank else has a share."""
        return any(one.site in self.pieces.gathering and one.running for one in self.running)

    def step(self, batch: Batch) -> float | None:
        """One step with its optimizer."""
        loss = self.gradients(batch)
        self.optimizer.step()
        return loss


def unsharded_gradients(model: Model, batches: Sequence[Batch], *, seed: int) -> Mapping[str, Tensor]:
    """Gradients of the mean loss over batches, one a replica, of the whole model, computed on this rank alone."""
    cls = pieces_of(model)
    pieces = cls(model, cls.full_parameters(model, seed))
    for batch in batches:
        (pieces.whole(batch) / len(batches)).backward()
    return {name: parameter.grad for name, parameter in pieces.parameters.items()}
