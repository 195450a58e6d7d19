"""Data parallel: a whole model on every rank."""

from typing import TYPE_CHECKING

from overlayccl_core.configuration.models import Site
from overlayccl_core.measuring.frameworks import Framework
from overlayccl_core.workloads.spreads.spread import Spread, means_as_they_come

if TYPE_CHECKING:
    from overlayccl_core.workloads.llama import Model


class Data(Spread):
    """One mean a parameter, as its gradient comes."""

    framework = Framework.DDP
    has_whole_models = True

    def check(self, model: "Model", ranks: int) -> None:
        """Any number of ranks fits."""

    def sites(self, model: "Model", microbatches: int, ranks: int) -> tuple[Site, ...]:
        return (means_as_they_come(model),)
