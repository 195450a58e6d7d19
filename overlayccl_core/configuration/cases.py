"""The Cases of a configuration at a deployment: those of its entries, and those of its models' sites."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.configuration import models
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.fields import OfTensors, hint
from overlayccl_core.configuration.models import Model, Site
from overlayccl_core.configuration.names import Placed
from overlayccl_core.configuration.sections import SweepPayloadSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.program.case import Case
from overlayccl_core.program.problem import Direction

_OF_EVERY_PROBLEM = tuple(Placed.model_fields)
_OF_A_NODE = "node"
_PAYLOAD = "payload"


class NoCases(ValueError):
    """The configuration has no Case of a Problem."""


def cases_of(settings: Settings, deployment: Deployment, problem: str, root: Path = Path()) -> list[Case]:
    """Return the Cases of a Problem: those of the configured models, then those of the entries, in their order.

    If two Cases share a readable id, the entry's id gets a digest; a model's never does.

    Args:
        root: The repository's folder, for config/models.

    Raises:
        ValueError: Unknown Problem, invalid entry, two entries of the same Case, or different Cases of one id.
        NoCases: The Problem has none.
    """
    of_models = list(_of_models(settings, deployment, problem, root))
    of_entries = list(_of_entries(settings, deployment, problem))
    _check_each_once(of_entries)
    trained = {case for _, case in of_models}
    different = {case for _, case in (*of_models, *of_entries)}
    shared = {name for name, count in Counter(case.id for case in different).items() if count > 1}
    of_entries = [
        (where, case.told_apart() if case.id in shared and case not in trained else case)
        for where, case in of_entries
    ]
    cases = _by_id((*of_models, *of_entries))
    if not cases:
        catalog.plug_in(problem)
        raise NoCases(
            f"cases of {problem}: none are configured: add an entry or a model with such a site, or leave the "
            "Problem out"
        )
    return list(cases.values())


def all_cases(
    settings: Settings, deployment: Deployment, *, leave_out: bool = False
) -> dict[str, tuple[Case, ...]]:
    """Return Problem -> its Cases, of all configured Problems.

    Args:
        leave_out: Leave out a Problem without a Case, unless none is left: for other models than usual.

    Raises:
        ValueError: As `cases_of`.
    """
    cases: dict[str, tuple[Case, ...]] = {}
    without = list[NoCases]()
    for problem in settings.problems:
        try:
            cases[problem] = tuple(cases_of(settings, deployment, problem))
        except NoCases as error:
            without.append(error)
    if without and not (leave_out and cases):
        raise without[0]
    return cases


_Found = tuple[str, Case]  # source of a Case, for messages; the Case


def _by_id(found: Iterable[_Found]) -> dict[str, Case]:
    """Return id -> Case. ValueError if two different ones share an id."""
    first: dict[str, _Found] = {}
    for where, case in found:
        before, known = first.setdefault(case.id, (where, case))
        if known != case:
            raise ValueError(
                f"{before} and {where} are different Cases of one id, {case.id}: change a size of one of them, or "
                "run them apart"
            )
    return {name: case for name, (_, case) in first.items()}


def _check_each_once(found: Iterable[_Found]) -> None:
    first: dict[Case, str] = {}
    for where, case in found:
        if first.setdefault(case, where) != where:
            raise ValueError(f"{where}: {case.id} is there already, as {first[case]}: remove one of the two")


def steps_of(model: Model, deployment: Deployment) -> list[dict[str, Any]]:
    """Return the step at each count of microbatches: `model`, `microbatches`, `sites` (name, Case, direction)."""
    steps = []
    for microbatches in model.microbatches:
        cases = cases_of_model(model, deployment, microbatches)
        at = models.sites_of(model, microbatches, deployment.ranks)
        sites = [(site.name, cases[site.name].id, site.direction) for site in at]
        steps.append({"model": model.name, "microbatches": microbatches, "sites": sites})
    return steps


def cases_of_model(
    model: Model, deployment: Deployment, microbatches: int, problem: str | None = None
) -> dict[str, Case]:
    """Return site -> its Case, in the step driver's order of preference; of one Problem, or (None) of all."""
    try:
        model.check(deployment.ranks)
    except ValueError as error:
        raise ValueError(f"model {model.name}: {error}") from None
    by_site = {}
    for site in models.sites_of(model, microbatches, deployment.ranks):
        if problem not in (None, site.problem):
            continue
        try:
            by_site[site.name] = case_of(site.problem, site.entry, deployment)
            _check_direction(site, by_site[site.name])
        except ValueError as error:
            raise ValueError(f"model {model.name}, site {site.name}: {error}") from None
    return by_site


def _check_direction(site: Site, case: Case) -> None:
    if site.direction is Direction.BACKWARD and not catalog.plug_in(site.problem).has_backward(case):
        raise ValueError(f"{case.id} has no backward: it exchanges nothing, so leave the site out")


def _of_models(settings: Settings, deployment: Deployment, problem: str, root: Path) -> Iterator[_Found]:
    for name in settings.models:
        model = models.load(name, root / models.FOLDER)
        for microbatches in model.microbatches:
            for site, case in cases_of_model(model, deployment, microbatches, problem).items():
                yield f"site {site} of model {name} with {microbatches} microbatches", case


def _of_entries(settings: Settings, deployment: Deployment, problem: str) -> Iterator[_Found]:
    for number, entry in enumerate(settings.cases.get(problem, ()), 1):
        where = f"cases of {problem}, entry {number}"
        try:
            yield where, case_of(problem, entry, deployment)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None


def case_of(problem: str, entry: Mapping[str, Any], deployment: Deployment) -> Case:
    """Return the Case of a configuration entry at a deployment: the Problem's own fields and those of `Placed`."""
    if entry.get("ranks") == _OF_A_NODE:
        on_a_node = deployment.ranks_per_node
        entry = {**entry, "ranks": on_a_node if on_a_node > 1 else deployment.ranks}
    placed = Placed.from_data({k: v for k, v in entry.items() if k in _OF_EVERY_PROBLEM})
    ranks = placed.ranks or deployment.ranks
    if deployment.ranks % ranks:
        raise ValueError(
            f"ranks must divide the world size (got {ranks} and {deployment.ranks}):"
            f" choose among {_divisors(deployment.ranks)}"
        )
    groups = deployment.ranks // ranks
    return catalog.case(
        problem,
        _resolved(problem, entry, placed.example, ranks),
        ranks=ranks,
        ranks_per_node=_ranks_per_node(deployment, ranks, groups, placed.strided),
        groups=groups,
        strided=placed.strided and groups > 1,
        uniform=deployment.uniform,
        dtype=placed.dtype,
    )


def _ranks_per_node(deployment: Deployment, ranks: int, groups: int, strided: bool) -> int:
    """Return how many ranks of ONE group share a node."""
    on_a_node = deployment.ranks_per_node // groups if strided else deployment.ranks_per_node
    mine = min(max(on_a_node, 1), ranks)
    if ranks % mine or (
        strided and deployment.ranks_per_node % groups and deployment.ranks_per_node > groups
    ):
        raise ValueError(
            f"groups of {ranks} ranks do not lie evenly on nodes of {deployment.ranks_per_node}:"
            " choose ranks that divide the ranks of a node, or are a multiple of them"
        )
    return mine


def workload_named(problem: str, entry: Mapping[str, Any]) -> str | None:
    """Return the workload whose parameter sizes an entry takes; None if it takes none."""
    named = entry.get("model") if issubclass(catalog.plug_in(problem).Entry, OfTensors) else None
    return None if named is None else str(named)


def _example(problem: str, name: str, ranks: int) -> dict[str, Any]:
    """Return the fields of one of a Problem's examples. A ValueError lists the known ones."""
    known = catalog.plug_in(problem).examples(ranks)
    if name not in known:
        raise ValueError(f"{problem}: example: there is no {name!r}: {hint(name, known)}")
    return dict(known[name])


def _resolved(problem: str, entry: Mapping[str, Any], example: str | None, ranks: int) -> dict[str, Any]:
    """Return the Problem's own fields; `model` (a workload) and its fields become the sizes of its parameters."""
    fields = {k: v for k, v in entry.items() if k not in _OF_EVERY_PROBLEM}
    if example is not None:
        fields |= _example(problem, example, ranks)
    name = workload_named(problem, entry)
    if name is None:
        return fields
    sizes = models.workload_of(name).Sizes
    given = {k: fields.pop(k) for k in sizes.model_fields if k in fields}
    try:
        parameters = sizes.from_data(given).parameter_sizes()
    except ValueError as error:
        raise ValueError(f"{problem}: model {name}: {error}") from None
    own = {k: v for k, v in fields.items() if k != "model"}
    return {**own, "sizes": [prod(shape) for _, shape in parameters]}


def _divisors(n: int) -> str:
    return ", ".join(str(k) for k in range(2, n + 1) if n % k == 0)


def cases_of_payloads(section: SweepPayloadSection, deployment: Deployment) -> list[Case]:
    """Return the Case of each payload, small ones first.

    Raises:
        ValueError: Entries of the Problem have no payload, or one does not suit the deployment's ranks.
    """
    if _PAYLOAD not in catalog.plug_in(section.problem).Entry.model_fields:
        raise ValueError(
            f"sweep_payload.problem: {section.problem} has no payload in its entries: name one that has, such as "
            "uniform_a2a"
        )
    cases = []
    for size in sorted(section.payloads):
        try:
            cases.append(case_of(section.problem, {_PAYLOAD: size}, deployment))
        except ValueError as error:
            raise ValueError(f"sweep_payload.payloads: {size} bytes: {error}") from None
    return cases
