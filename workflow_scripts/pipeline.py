"""Facts known as the Snakefile is read: configuration, deployment, Cases, and the code of each rule."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from overlayccl_core import catalog
from overlayccl_core.archiving.manifest import command_of, commit_of, configured
from overlayccl_core.backends.backend import backend_of
from overlayccl_core.configuration import captured
from overlayccl_core.configuration.cases import all_cases, cases_of_model, cases_of_payloads, steps_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.models import Model, label, problems_of, sites_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.prices import InstancePrice, price_of
from overlayccl_core.configuration.searches import at_seeds
from overlayccl_core.configuration.searches import load as load_search
from overlayccl_core.configuration.settings import FILE, HERE, MACHINE, NAMES, SOURCE, Settings, fields_of
from overlayccl_core.configuration.settings import load as load_settings
from overlayccl_core.digest import Sources
from overlayccl_core.evidence import redeployment
from overlayccl_core.launching.launcher import launcher_of
from overlayccl_core.program.case import Case
from overlayccl_core.rule import Rule, rules
from overlayccl_core.search.proposer import asks, rounds
from overlayccl_core.tables.remake import RESULTS, of_profile, profile_in_use
from workflow_scripts.plug_in_files import PlugInFiles
from workflow_scripts.preflight import check_backend, check_models, check_search, unsolved
from workflow_scripts.records import besides, elsewhere, measured_on, unrecorded

DEPLOYMENTS = Path("config/deployments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A checked configuration. Texts passed as parameters have sorted keys: equal values give equal texts.

    A run with checkpoints plans several times, so each file is read once.

    Attributes:
        machine: Fingerprint of the machine measured on (`Backend.fingerprint`), a parameter of rules with ranks.
        elsewhere: Reason to measure nothing now: the tree is of another machine. Else empty.
        besides: Differences of this host, not known to change a measurement. Else empty.
        unrecorded: Tables without Snakemake's records; then nothing is made. Else empty.
        left_out: One line on models and Problems that are asked for and cannot be. Else empty.
        starts: Whether jobs will start.
        source: The tree named for the target `redeploy`; empty without.
        typed: Keys and values of --config, unless the profile has the same.
        price: Of one of its nodes; None: config/prices.yaml has none.
    """

    settings: Settings
    deployment: Deployment
    cases: Mapping[str, tuple[Case, ...]]
    machine: str
    elsewhere: str = ""
    besides: str = ""
    unrecorded: str = ""
    left_out: str = ""
    starts: bool = False
    source: str = ""
    typed: Mapping[str, Any] = field(default_factory=dict)
    price: InstancePrice | None = None
    rules: Mapping[str, Rule] = field(default_factory=rules, repr=False, compare=False)
    _digest: Callable[..., str] = field(
        default_factory=lambda: cache(Sources().digest), repr=False, compare=False
    )
    _model: Callable[[str], Model] = field(
        default_factory=lambda: cache(load_model), repr=False, compare=False
    )
    _problems_of: Callable[[Model, int], tuple[str, ...]] = field(
        default_factory=lambda: cache(problems_of), repr=False, compare=False
    )

    @property
    def deployment_file(self) -> str:
        """The deployment's file, read by the commands."""
        return (DEPLOYMENTS / f"{self.deployment.name}.yaml").as_posix()

    def said(self, overrides: Mapping[str, Any], tell: Callable[[str], None] = print) -> str:
        """Describe the run for its archive (`archiving.manifest`), as JSON. tell: of why there is no commit."""
        commit, clean = commit_of(Path(), tell)
        config = configured(overrides)
        return json.dumps(
            {
                "command": command_of(profile_in_use(), config, Path()),
                "config": config,
                "machine": self.machine,
                "commit": commit,
                "clean": clean,
                "measuring": sorted(name for name, rule in self.rules.items() if rule.measures),
                "nodes": self.deployment.nodes,
            },
            sort_keys=True,
        )

    @property
    def captured(self) -> list[str]:
        """The table of the step that the Cases are of, if they are of a captured one."""
        table = Path(RESULTS, self.settings.tree, captured.KEPT)
        return [table.as_posix()] if table.is_file() else []

    def keep_source(self) -> None:
        """Copy the choices of `source` into the run's tree, for the target `redeploy`."""
        if self.source:
            redeployment.keep(Path(RESULTS), self.settings.tree, self.source)

    @property
    def source_copies(self) -> dict[str, list[str]]:
        """The copies that `redeploy` reads, by table; none in a plan before the first. ValueError: of no tree."""
        tree = Path(RESULTS, self.settings.tree)
        if not self.source and redeployment.kept(tree / redeployment.KEPT) is None:
            raise ValueError(
                "redeploy: whose choices? Name a tree below results/: --config source=NAME (with "
                f"deployment={self.deployment.name}, where they are to go)"
            )
        copies = {Path(name).stem: tree / name for name in (redeployment.KEPT, redeployment.KEPT_THETA)}
        return {name: [copy.as_posix()] if copy.is_file() else [] for name, copy in copies.items()}

    @property
    def job_resources(self) -> Mapping[str, int | str]:
        """Resources of rules with ranks, for Snakemake's executor, from the launcher."""
        return launcher_of(self.deployment).job_resources(self.deployment)

    @property
    def deployment_json(self) -> str:
        """The deployment's fields: a comment in its file changes nothing."""
        return self.deployment.to_json()

    @property
    def ranks_json(self) -> str:
        """The fields a measurement depends on."""
        return self.deployment.measured_fields

    @property
    def largest_payload_bytes(self) -> int:
        """The largest payload whose values a selftest checks.

        Where ranks compile, it is the deployment's. Else it grows to the most a Program of a Case may call at once:
        a rank's data for every rank, but at most half of the memory budget.
        """
        here = self.deployment
        if here.uniform:
            return here.largest_payload_bytes
        every = chain(*self.cases.values())
        of_cases = max((case.ranks * catalog.payload_bytes(case) for case in every), default=0)
        return max(here.largest_payload_bytes, min(of_cases, here.memory_budget_bytes // 2))

    def cases_json(self, problem: str) -> str:
        """The Cases of a Problem."""
        return json.dumps([case.to_json() for case in self.cases[problem]], sort_keys=True)

    def model_json(self, model: str) -> str:
        """A training model's fields and the content of its text: a comment in its file changes nothing."""
        return self._model(model).identity()

    def long_model_json(self, model: str) -> str:
        """The same for the target `longrun`, perhaps on another text."""
        return self.settings.longrun.on_its_text(self._model(model)).identity()

    def problems_of_model(self, model: str) -> tuple[str, ...]:
        """The Problems at the sites of a model's step."""
        return self._problems_of(self._model(model), self.deployment.ranks)

    def chosen_with(self, problem: str) -> tuple[str, ...]:
        """The Problem and all chosen together with it: Problems of one step, directly or through a third."""
        together = [problem]
        for one in together:  # grows
            for model in self.models_of(one):
                together += [other for other in self.problems_of_model(model) if other not in together]
        return tuple(together)

    def models_of(self, *problems: str) -> tuple[str, ...]:
        """The configured models with one of the Problems at a site."""
        return tuple(
            name
            for name in self.settings.models
            if not set(problems).isdisjoint(self.problems_of_model(name))
        )

    @property
    def long_models(self) -> tuple[str, ...]:
        """The models of the target `longrun`. ValueError: there is none, or one named is not configured."""
        return self.settings.longrun.of(self.settings.models, self.deployment.name)

    def trained_json(self, *problems: str) -> str:
        """Map Case -> direction -> models training it (`nano m8`), for some Problems."""
        labels_of: dict[str, dict[str, list[str]]] = {}
        for name in self.models_of(*problems):
            model = self._model(name)
            for microbatches in model.microbatches:
                cases = cases_of_model(model, self.deployment, microbatches)
                for site in sites_of(model, microbatches, self.deployment.ranks):
                    if site.problem in problems:
                        labels = labels_of.setdefault(cases[site.name].id, {}).setdefault(site.direction, [])
                        labels.append(label(name, microbatches))
        return json.dumps(
            {
                case: {direction: list(dict.fromkeys(labels)) for direction, labels in directions.items()}
                for case, directions in labels_of.items()
            },
            sort_keys=True,
        )

    def steps_json(self, *models: str) -> str:
        """The steps of some models at all counts of microbatches: which Case is at which site."""
        return json.dumps([step for name in models for step in steps_of(self._model(name), self.deployment)])

    @property
    def swept_models(self) -> tuple[str, ...]:
        """The models of the target `sweep_m`: those with several M. ValueError if there is none."""
        several = tuple(name for name in self.settings.models if len(self._model(name).microbatches) > 1)
        if not several:
            raise ValueError(
                f"sweep_m: no model of `models` ({', '.join(self.settings.models) or 'none'}) has several "
                "microbatches, so there is nothing to compare: --config preset=sweep-m has one"
            )
        return several

    @property
    def swept_payloads(self) -> str:
        """The settings of the target `sweep_payload`. ValueError if one of its payloads has no Case here."""
        cases_of_payloads(self.settings.sweep_payload, self.deployment)
        return self.settings.part("sweep_payload")

    @property
    def compared(self) -> tuple[tuple[str, str], ...]:
        """The (Problem, search at a seed) pairs of the target `ablations`.

        Raises:
            ValueError: None of its Problems is configured, or one of its searches cannot ask.
        """
        section = self.settings.ablations
        problems = [name for name in self.settings.problems if name in section.problems]
        if not problems:
            raise ValueError(
                f"ablations.problems: none of {', '.join(section.problems)} is among `problems` "
                f"({', '.join(self.settings.problems)}): name one there"
            )
        for name in section.searches:
            check_search(self.settings.asking.of(load_search(name)), self.typed, starts=self.starts)
        return tuple((p, search) for p in problems for search in at_seeds(section.searches, section.seeds))

    def compared_json(self, name: str) -> str:
        """The fields of a search in the target `ablations`."""
        search = self.settings.asking.of(load_search(name))
        return search.changed(begin=self.settings.ablations.begin).to_json()

    @property
    def choosers(self) -> tuple[str, ...]:
        """The searches of `asking`: in the target `probing` they choose probes. ValueError if there is none."""
        if not (asking := self.asking):
            raise ValueError(
                "probing: no search of `searches` asks a language model: --config proposer=claude, "
                "proposer=command or proposer=replay names one that does"
            )
        return asking

    @property
    def asking(self) -> tuple[str, ...]:
        """The configured searches with a language model."""
        return tuple(name for name in self.settings.searches if self.asks(name))

    def search_json(self, name: str) -> str:
        """The fields of a search: a comment in its file changes nothing."""
        return self.settings.asking.of(load_search(name)).to_json()

    def asks(self, name: str) -> int:
        """The number of language models a search asks at once."""
        return int(asks(load_search(name).proposer) is not None)

    @property
    def searches(self) -> tuple[str, ...]:
        """The configured searches; after each search with a language model, its second round."""
        return tuple(one.name for one in rounds(self.settings.searches))

    def settings_of(self, problem: str) -> str:
        """The part of the settings behind a Problem's Cases."""
        return self.settings.of_problem(problem).part("cases", "models")

    def code(
        self, rule: str, problem: str | None = None, model: str | None = None, search: str | None = None
    ) -> str:
        """Digest of a rule's code, for its Problem, model or search, if any."""
        return self._digest(rule, *self.plugins(rule, problem, model, search))

    def plugins(
        self, rule: str, problem: str | None = None, model: str | None = None, search: str | None = None
    ) -> tuple[str, ...]:
        """The plug-ins a rule loads by name, as paths in the package."""
        problems = (problem,) if problem else self.problems_of_model(model) if model else ()
        of = PlugInFiles(
            settings=self.settings,
            deployment=self.deployment,
            models=[self._model(name) for name in ([model] if model else self.settings.models)],
            cases={name: self.cases[name] for name in problems},
            problem=problem,
            search=search,
            problems_of=self._problems_of,
        )
        return tuple(sorted({file for kind in self.rules[rule].plugins for file in of.files(kind)}))


def prepare(
    config: Mapping[str, Any],
    overrides: Iterable[str],
    *,
    starts: bool = True,
    configfiles: Iterable[Path] = (),
) -> Pipeline:
    """Check everything checkable before a job starts.

    Args:
        config: The configuration, merged by Snakemake.
        overrides: The keys from --config.
        starts: Whether jobs will start; a plan needs no library and no cluster.
        configfiles: Those of the command line.

    Raises:
        ValueError: Names the file, the field and the mend.
    """
    overrides = tuple(overrides)
    fields_of(Path(FILE))  # Snakemake has merged it, and accepts a repeated field
    laid_over = [fields_of(file) for file in configfiles]
    settings = load_settings(config, overrides=overrides, laid_over=laid_over)
    deployment = load_deployment(DEPLOYMENTS / f"{settings.deployment}.yaml")
    settings = load_settings(config, overrides=overrides, usual=deployment.preset, laid_over=laid_over)
    check_models(settings.models)
    lacking = {m: needs for m in settings.models if (needs := unsolved(m, settings.problems, deployment))}
    for model, needs in lacking.items() if "models" in overrides else ():
        raise ValueError(
            f"--config models: {model} has {needs} at its sites, which is not among `problems` "
            f"({', '.join(settings.problems)}): add it there, or leave {model} out"
        )
    settings = settings.changed(models=tuple(m for m in settings.models if m not in lacking))
    # The order of names means nothing, so no parameter may depend on it.
    settings = settings.changed(**{name: tuple(sorted(getattr(settings, name))) for name in NAMES})
    cases = all_cases(settings, deployment, leave_out="models" in overrides and "problems" not in overrides)
    needing = [f"{model} (needs {needs})" for model, needs in lacking.items()]
    left_out = {
        "models that are left out, as `problems` does not name what they need": needing,
        "Problems that are left out, as nothing has a Case": sorted(set(settings.problems) - set(cases)),
    }
    settings = settings.changed(problems=tuple(cases))
    usual = of_profile(Path(), profile_in_use())
    typed = {key: config.get(key) for key in overrides if str(config.get(key)) != usual.get(key)}
    for name in settings.searches:
        check_search(settings.asking.of(load_search(name)), typed, starts=starts)
    for name in settings.ablations.searches:
        load_search(name)
    for name in settings.models:
        settings.longrun.check(load_model(name), deployment.ranks)
    if starts:
        check_backend(deployment, settings.models)
    source = str(config[SOURCE]) if SOURCE in overrides else ""
    if source:
        redeployment.check(Path(RESULTS), settings.tree, source)
    here, results = backend_of(deployment).fingerprint(deployment), Path(RESULTS, settings.tree)
    again, same_host = config.get(MACHINE) == HERE, launcher_of(deployment).this_host
    machine = here if again else measured_on(results, deployment.measured_fields, here)
    return Pipeline(
        settings=settings,
        deployment=deployment,
        cases=cases,
        machine=machine,
        elsewhere=elsewhere(results, machine, here),
        besides=besides(results) if machine == here and not again and same_host else "",
        unrecorded=unrecorded(results),
        left_out="; ".join(f"{why}: {', '.join(names)}" for why, names in left_out.items() if names),
        starts=starts,
        source=source,
        typed=typed,
        price=price_of(deployment.node, Path()),
    )
