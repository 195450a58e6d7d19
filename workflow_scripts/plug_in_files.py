"""The files of the plug-ins that a job loads by name: part of the code of its rule."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from overlayccl_core import catalog, loader
from overlayccl_core.configuration.cases import workload_named
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.searches import load as load_search
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.observing.fits import CAPTURED
from overlayccl_core.program.case import Case
from overlayccl_core.program.ways import FOLDER as WAYS
from overlayccl_core.rewrites.rule import FOLDER as REWRITES
from overlayccl_core.rule import PlugIns
from overlayccl_core.search.style import FOLDER as STYLES


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugInFiles:
    """What decides the files of a job.

    Attributes:
        models: Its model, or all that are configured.
        cases: Problem -> Cases: of its Problem, or of those at the sites of its model.
        problems_of: (model, ranks) -> the Problems at its sites.
    """

    settings: Settings
    deployment: Deployment
    models: Sequence[Model]
    cases: Mapping[str, Sequence[Case]]
    problem: str | None
    search: str | None
    problems_of: Callable[[Model, int], tuple[str, ...]]

    def files(self, kind: PlugIns) -> Iterator[str]:
        """Yield the files of a kind, as paths in the package."""
        backend = self.deployment.backend
        match kind:
            case PlugIns.BACKEND:
                yield _file("backends", backend)
            case PlugIns.LAUNCHER:
                yield _file("launching/launchers", self.deployment.launcher)
            case PlugIns.DEPLOYED:
                yield _file("backends", backend, "deployed")
            case PlugIns.MODEL:
                for one in self.models:
                    yield from (_file(folder, one.workload) for folder in ("workloads", "training/models"))
                    at_sites = self.problems_of(one, self.deployment.ranks)
                    yield from (_file("problems", name) for name in at_sites)
            case PlugIns.PROBLEMS:
                yield from (_file("problems", name) for name in self.settings.problems)
            case PlugIns.INVOLVED:
                yield from (_file("problems", name) for name in self._involved())
            case PlugIns.STRATEGIES:
                yield from (_file("strategies", name) for name in self._involved())
            case PlugIns.CAPTURED:
                yield from (_file(folder, CAPTURED) for folder in ("problems", "strategies"))
            case PlugIns.SWEPT:
                swept = self.settings.sweep_payload.problem
                yield from (_file(folder, swept) for folder in ("problems", "strategies"))
            case PlugIns.WORKLOADS:
                entries = self.settings.cases.get(self.problem or "", ())
                named = {name for entry in entries if (name := workload_named(str(self.problem), entry))}
                yield from (
                    _file("workloads", name) for name in named | {one.workload for one in self.models}
                )
            case PlugIns.REWRITES:
                yield from (_file(REWRITES, name) for name in loader.names(REWRITES))
            case PlugIns.PROPOSER:
                found = load_search(str(self.search))
                yield _file("search/proposers", found.proposer)
                if self.problem and (style := getattr(found, "style", None)):  # a model may use all ways
                    yield _file(STYLES, style)
                    yield from (_file(WAYS, name) for name in loader.names(WAYS))

    def _involved(self) -> set[str]:
        """Its Problems, and those equal to their backward: their libraries solve them."""
        equal = (
            catalog.plug_in(name).equals_backward(case) for name in self.cases for case in self.cases[name]
        )
        return {*self.cases, *(case.problem for case in equal if case is not None)}


def _file(folder: str, name: str, part: str = "") -> str:
    return loader.place(loader.path(folder, name, part))[1].as_posix()
