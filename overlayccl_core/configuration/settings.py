"""The configuration, typed: everything measured and computed. Machines are profiles, clusters deployments."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from overlayccl_core.configuration.fields import Fields, hint, is_fields, parsed, partial, unique
from overlayccl_core.configuration.models import Model
from overlayccl_core.configuration.names import (
    Entries,
    Entry,
    Name,
    Names,
    SearchId,
    first_rounds,
    known_problems,
)
from overlayccl_core.configuration.presets import DEFAULT, kept, tree_of
from overlayccl_core.configuration.searches import AT, Begin, Search, file_and_seed

FILE = "config/config.yaml"
IN_SECTIONS = {  # override key -> its section and field
    "longrun_steps": ("longrun", "steps"),
    "command": ("asking", "command"),
    "max_usd": ("asking", "max_usd"),
}
PROPOSER = "proposer"  # override key: one more search
MACHINE, HERE = "machine", "here"  # override key and value: measure everything again, on this machine
SOURCE = "source"  # override key: the tree whose choices the target `redeploy` takes
OVERRIDES = (
    *("deployment", "preset", "problems", "models", PROPOSER, "heldout_seed", MACHINE, SOURCE),
    *IN_SECTIONS,
)


class _Bounded(Fields):
    """Fields of which some are `minimum_...`, each with its `maximum_...`."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name, low in self:
            most = name.replace("minimum_", "maximum_")
            if low > (high := getattr(self, most)):
                raise ValueError(f"{name} must be at most {most} (got {low} and {high})")
        return self


class _Timing(_Bounded):
    """A launch. Rounds follow from the seconds; below the minimum the run says so."""

    seconds: float = Field(gt=0, description="of timing in one launch")
    minimum_rounds: int = Field(ge=2, description="with fewer rounds the run says so")
    maximum_rounds: int = Field(ge=2, description="of each Program, however quick")


class BenchSection(_Timing):
    """One launch for each Problem."""


class ProbeSection(_Timing):
    """One launch that times structured, shape, mixed and held-out Programs."""

    rounds_of_fitted: int = Field(
        ge=2,
        description="of all but the held-out Programs: to the fit the number of Programs matters more",
    )
    mixed: int = Field(ge=10, description="how many random Programs are fitted")
    mixed_seed: int = Field(ge=0, description="seed of the draw of mixed Programs")
    heldout: int = Field(ge=5, description="how many random Programs judge the cost model")


class FitSection(Fields):
    """The fit of the cost model."""

    bootstraps: int = Field(ge=2, description="how many, for the intervals of theta")
    ridge: float = Field(ge=0, description="penalty of the scaled least squares; 0: none")
    seed: int = Field(ge=0, description="seed of the draws of bootstraps")


class ShortlistSection(Fields):
    """The Programs timed at each Case and direction, beside the developer's and the other obvious strategies."""

    families: int = Field(ge=1, description="how many families of the search send their cheapest Program")
    random: int = Field(
        ge=0,
        description="proven candidates drawn at random, without which the regret of the model's choice would be of "
        "its own favourites only",
    )
    overlapping: int = Field(ge=0, description="families of Programs with calls in flight beside computing")
    at_least: int = Field(ge=1, description="filled up with the next cheapest, if so many are proven")
    seed: int = Field(ge=0, description="seed of the draw of random candidates")


class _Steps(_Bounded):
    """Training steps of each arm in a launch."""

    minimum_steps: int = Field(ge=2, description="of each arm, however little time there is")
    maximum_steps: int = Field(ge=2, description="of each arm, however much time there is")


class TrainSection(_Steps):
    """Training launches of each model. Ratios differ more between launches than within one."""

    launches: int = Field(
        ge=1,
        description="how many of each model; what is slower beyond noise in the first two is in no later one",
    )
    seconds: float = Field(
        gt=0, description="of the timed steps of one launch, all arms and microbatches together"
    )
    loss_steps: int = Field(ge=0, description="of every arm and seed where losses are compared")
    loss_seeds: int = Field(ge=0, description="seeds of the compared losses")


class ConfirmSection(_Timing, _Steps):
    """Fresh launches after all choices, which choose nothing: the only source of reported figures."""

    launches: int = Field(ge=1, description="how many; from 3 on they are what intervals are over")
    step_seconds: float = Field(gt=0, description="of the timed steps of each model in one launch")


class LongrunSection(Fields):
    """Many steps of the arms of each model, to compare their losses: the target `longrun`."""

    steps: int = Field(ge=10, description="of each arm")
    seeds: int = Field(
        ge=1,
        description="of the developer's arm, whose spread the others' last losses are held to; they have one",
    )
    corpus: str | None = Field(
        default=None, description="folder of text to train on (default: what each model trains on)"
    )
    tokenizer: str | None = Field(
        default=None, description="tokenizer.json to read it with (default: each model's, or byte by byte)"
    )

    def on_its_text(self, model: Model) -> Model:
        """Return a model as trained here. ValueError if a text is named here, but the model reads none."""
        if self.corpus is None and self.tokenizer is None:
            return model
        try:
            return model.on_text(self.corpus, self.tokenizer)
        except ValueError as error:
            raise ValueError(f"longrun: model {model.name}: {error}") from None

    def check(self, model: Model, ranks: int) -> None:
        """Raise ValueError if the text named here is missing, or does not suit this model."""
        if (mine := self.on_its_text(model)) is model:
            return
        try:
            mine.check(ranks)
        except ValueError as error:
            raise ValueError(f"longrun: model {model.name}: {error}") from None


class AskingSection(Fields):
    """Searches that ask a language model."""

    max_usd: float = Field(
        ge=0, description="that a results tree may cost in all; nothing is asked that could cost more"
    )
    command: str | None = Field(
        default=None, description="who answers the proposer `command` (default: what its search names)"
    )

    def of(self, search: Search) -> Search:
        """Return a search with the command named here, if it runs one."""
        if self.command is None or "command" not in type(search).model_fields:
            return search
        return search.changed(command=self.command)


class AblationsSection(Fields):
    """Searches side by side: the target `ablations`."""

    problems: Annotated[Names, AfterValidator(known_problems)] = Field(
        min_length=1, description="of those that are configured: where the searches are compared"
    )
    searches: Annotated[tuple[SearchId, ...], AfterValidator(unique), AfterValidator(first_rounds)] = Field(
        min_length=1,
        description="names of files in config/searches; `claude+alone`: with the fields of variants/alone.yaml; "
        "`offline@0`: at this seed alone",
    )
    begin: Begin = Field(
        description="what all of them begin with, whatever their files say: as in a file of config/searches"
    )
    seeds: int = Field(ge=1, description="of each search, from 0 on; from 5 on they give intervals")


class ProbingSection(Fields):
    """A language model chooses probes: the target `probing`."""

    turns: int = Field(ge=1, description="calls of the model, at most; what it orders in one is one launch")
    probes: int = Field(ge=1, description="different Programs that it may have timed, at most")
    seconds: float = Field(gt=0, description="of samples, after which it may order no more")
    draws: int = Field(
        ge=1, description="random parts of the sweep that took as many seconds, to compare with"
    )


class ScopesSection(_Timing):
    """The Programs of trained arms alone and beside a matmul: the target `scopes`."""


class TuneSection(_Timing):
    """All proven ways of single calls in one launch, and tuners on their samples: the target `tune`."""

    calls: tuple[Entry, ...] = Field(
        default=(), description="as under cases.captured; a captured step has its own"
    )


class DriftSection(Fields):
    """Some probes are timed again: the target `drift`."""

    seconds: float = Field(gt=0, description="of timing, in one launch")
    probes_of_a_kind: int = Field(ge=2, description="of each kind of call, and of local work, at most")
    mixed: int = Field(ge=0, description="held-out random Programs, at most")


NAMES = ("problems", "models", "searches")  # lists of names; `tp_mlp,grad_ar` on the command line


class Settings(Fields):
    """The whole configuration, its preset applied.

    A job gets only the part that its rule declares (`part`, `from_part`). Any other field raises: a change of an
    undeclared value would not rerun the job.
    """

    deployment: Name = Field(description="name of a file in config/deployments")
    preset: str = Field(description="one of the names under presets, or the one kept in a run's own tree")
    problems: Annotated[Names, AfterValidator(known_problems)] = Field(
        min_length=1, description="names of files in overlayccl_core/problems"
    )
    models: Names = Field(description="names of files in config/models, whose sites add Cases")
    searches: Annotated[Names, AfterValidator(first_rounds)] = Field(
        description="names of files in config/searches"
    )
    heldout_seed: int = Field(ge=0, description="seed of the mixed Programs that judge the cost model")
    cases: Annotated[Mapping[str, Entries], AfterValidator(known_problems)] = Field(
        description="Problem to its Cases; the Problem checks their fields"
    )
    probe: ProbeSection = Field(description="what the cost model is fitted on and judged by")
    shortlist: ShortlistSection = Field(description="what is timed of each Case and direction")
    bench: BenchSection = Field(description="the timing of shortlists")
    fit: FitSection = Field(description="the fit of the cost model")
    train: TrainSection = Field(description="training steps, by which is chosen")
    confirm: ConfirmSection = Field(description="what is deployed is timed again, for the figures")
    longrun: LongrunSection = Field(description="many steps whose losses are compared: a target of its own")
    asking: AskingSection = Field(description="searches that ask a language model")
    ablations: AblationsSection = Field(description="searches side by side: a target of its own")
    probing: ProbingSection = Field(description="a language model chooses probes: a target of its own")
    scopes: ScopesSection = Field(description="Programs of the step outside of it: a target of its own")
    tune: TuneSection = Field(
        default=TuneSection(seconds=120.0, minimum_rounds=12, maximum_rounds=40),  # of an older file
        description="who finds the fastest of proven ways: a target of its own",
    )
    drift: DriftSection = Field(description="some probes are timed again: a target of its own")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.heldout_seed == self.probe.mixed_seed:
            raise ValueError(
                f"heldout_seed must differ from probe.mixed_seed (both are {self.heldout_seed}): "
                "the model would be judged on the Programs that it was fitted on"
            )
        return self

    @property
    def tree(self) -> str:
        """The folder below results/: the deployment's name, followed by the preset's unless it is the default."""
        return tree_of(self.deployment, self.preset)

    def part(self, *names: str) -> str:
        """Return some fields as JSON with sorted keys: equal values, equal text."""
        whole = self.model_dump(mode="json")
        return json.dumps({name: whole[name] for name in names}, sort_keys=True)

    def of_problem(self, problem: str) -> "Settings":
        """Return these settings with the Cases of one Problem only; no entries if models bring them all."""
        cases = {name: entries for name, entries in self.cases.items() if name == problem}
        return self.model_copy(update={"problems": (problem,), "cases": cases})

    @classmethod
    def from_part(cls, text: str) -> "Settings":
        """Return settings with only the fields of a `part`."""
        given = _PART.from_json(text)
        return cls.model_construct(**{name: getattr(given, name) for name in given.model_fields_set})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in type(self).model_fields:
                raise AttributeError(
                    f"settings.{name} is not among the fields that this rule declares: add it"
                )
            raise AttributeError(f"settings have no field {name!r}")


SECTIONS = tuple(name for name, info in Settings.model_fields.items() if is_fields(info.annotation))
_PART = partial("Part", Settings)
_PRESET = partial("Preset", Settings, only=("problems", "models", "cases", *SECTIONS), deep=True)
_PRESETS = Field(min_length=1, description="name to the fields that differ: they replace what stands above")
File = create_model("File", __base__=Settings, presets=(Mapping[str, _PRESET], _PRESETS))  # type: ignore[valid-type]


def load(
    config: Mapping[str, Any], *, overrides: Iterable[str] = (), file: str = FILE, usual: str = DEFAULT
) -> Settings:
    """Return settings from the parsed configuration.

    Args:
        config: Configuration as read, including overrides.
        overrides: Keys from --config.
        file: Name of the configuration file, for messages.
        usual: The deployment's preset, used in place of `default`.

    Raises:
        ValueError: Names field, mend and the file (another file may have overridden the field).
    """
    overrides = tuple(overrides)
    check_overrides(overrides)
    data = {**config, **{name: _list(config[name]) for name in NAMES if name in config}}
    in_sections = {key: data.pop(key) for key in IN_SECTIONS if key in overrides}
    besides = [data.pop(PROPOSER)] if PROPOSER in overrides else []
    if SOURCE in overrides:
        data.pop(SOURCE)
    if MACHINE in overrides and (named := data.pop(MACHINE)) != HERE:
        raise ValueError(
            f"--config {MACHINE}={named}: must be {HERE}, which measures all of a tree again, on this machine"
        )
    try:
        if isinstance(presets := data.get("presets"), Mapping):
            own = kept(Path(file).parent.parent, data.get("deployment"), data.get("preset"))
            data["presets"] = {**own, **presets}
        File.from_data(data)
        preset, presets = data["preset"], data.pop("presets")
        if preset not in presets:
            raise ValueError(f"preset: there is no {preset!r}: {hint(preset, presets)}")
        meant = usual if preset == DEFAULT else preset
        if meant not in presets:
            raise ValueError(f"the deployment's preset: there is no {meant!r}: {hint(meant, presets)}")
        for name, values in presets[meant].items():
            data[name] = {**data[name], **values} if name in SECTIONS else values
        data |= {name: _list(config[name]) for name in NAMES if name in overrides}
        data["searches"] = [*data["searches"], *(name for name in besides if name not in data["searches"])]
        compared = data["ablations"]["searches"]
        known = {file_and_seed(name)[0] for name in compared}
        once = [f"{name}{AT}0" for name in besides if name not in known]  # it may cost
        data["ablations"] = data["ablations"] | {"searches": [*compared, *once]}
        for key, value in in_sections.items():
            section, field = IN_SECTIONS[key]
            data[section] = {**data[section], field: value}
        return Settings.from_data(data)
    except ValueError as error:  # the file of the field is unknown here
        raise ValueError(f"configuration: {error} ({file} and what overrides it)") from None


def fields_of(path: Path) -> dict[str, Any]:
    """Return the fields of a configuration file. ValueError if it is no YAML, no mapping, or has a field twice."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file: run from the repository's root")
    try:
        config = parsed(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: must be a mapping of fields (got {type(config).__name__})")
    return config


def read(
    file: str | Path = FILE, overrides: Mapping[str, Any] | None = None, *, usual: str = DEFAULT
) -> Settings:
    """Return settings from a file, read as in the pipeline, with the keys of --config. usual: as for `load`."""
    config = fields_of(Path(file))
    return load({**config, **(overrides or {})}, overrides=overrides or (), file=str(file), usual=usual)


def check_overrides(keys: Iterable[str]) -> None:
    """Raise ValueError for a key unknown to --config."""
    for key in keys:
        if key not in OVERRIDES:
            raise ValueError(
                f"--config {key}: is no override key: {hint(key, OVERRIDES)}; "
                "anything else goes into a file given as --configfile"
            )


def _list(value: object) -> object:
    """Split `tp_mlp,grad_ar`, a list as given on the command line."""
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value
