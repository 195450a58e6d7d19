"""The configuration, typed: everything measured and computed. Machines are profiles, clusters deployments."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from overlayccl_core.configuration.fields import Fields, hint, is_fields, parsed, partial
from overlayccl_core.configuration.longrun import LongrunSection
from overlayccl_core.configuration.names import Entries, Name, Names, first_rounds, known_problems
from overlayccl_core.configuration.presets import DEFAULT, kept, tree_of
from overlayccl_core.configuration.searches import AT, file_and_seed
from overlayccl_core.configuration.sections import (
    AblationsSection,
    AskingSection,
    BenchSection,
    ConfirmSection,
    DecomposeSection,
    DriftSection,
    FitSection,
    ProbeSection,
    ProbingSection,
    ScopesSection,
    ShortlistSection,
    SweepMSection,
    SweepPayloadSection,
    TrainSection,
    TuneSection,
)

FILE = "config/config.yaml"
IN_SECTIONS = {  # override key -> its section and field
    "longrun_steps": ("longrun", "steps"),
    "longrun_models": ("longrun", "models"),
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
    decompose: DecomposeSection = Field(
        default=DecomposeSection(minimum_steps=6, maximum_steps=10),  # of an older file
        description="the gain of what is deployed, in parts: a target of its own",
    )
    tune: TuneSection = Field(
        default=TuneSection(seconds=120.0, minimum_rounds=12, maximum_rounds=40),  # of an older file
        description="who finds the fastest of proven ways: a target of its own",
    )
    sweep_m: SweepMSection = Field(
        default=SweepMSection(
            launches=3, seconds=40.0, minimum_steps=6, maximum_steps=16
        ),  # of an older file
        description="models by their number of microbatches: a target of its own",
    )
    sweep_payload: SweepPayloadSection = Field(
        default=SweepPayloadSection(seconds=75.0, minimum_rounds=12, maximum_rounds=40),  # of an older file
        description="all known ways of a Problem by payload: a target of its own",
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
    config: Mapping[str, Any],
    *,
    overrides: Iterable[str] = (),
    file: str = FILE,
    usual: str = DEFAULT,
    laid_over: Iterable[Mapping[str, Any]] = (),
) -> Settings:
    """Return settings from the parsed configuration.

    Args:
        config: Configuration as read, including overrides.
        overrides: Keys from --config.
        file: Name of the configuration file, for messages.
        usual: The deployment's preset, used in place of `default`.
        laid_over: Files that `config` has, too, and whose fields stand above a preset, unless it is their own.

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
        for laid in laid_over:
            if meant not in (laid.get("presets") or ()):
                for name in laid.keys() & presets[meant].keys():
                    data[name] = _laid(data[name], laid[name], config[name])
        data |= {name: _list(config[name]) for name in NAMES if name in overrides}
        data["searches"] = [*data["searches"], *(name for name in besides if name not in data["searches"])]
        compared = data["ablations"]["searches"]
        known = {file_and_seed(name)[0] for name in compared}
        once = [f"{name}{AT}0" for name in besides if name not in known]  # it may cost
        data["ablations"] = data["ablations"] | {"searches": [*compared, *once]}
        for key, value in in_sections.items():
            section, field = IN_SECTIONS[key]
            data[section] = {**data[section], field: _list(value) if field in NAMES else value}
        return Settings.from_data(data)
    except ValueError as error:  # the file of the field is unknown here
        raise ValueError(f"configuration: {error} ({file} and what overrides it)") from None


def fields_of(path: Path) -> dict[str, Any]:
    """Return the fields of a configuration file. ValueError if it is no YAML, no mapping, or has a field twice."""
    if not path.is_file():
        raise ValueError(
            f"{path}: no such file: run from the repository's root, or name it with --root FOLDER"
        )
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


def _laid(below: Any, own: Any, merged: Any) -> Any:
    """Return a field with the values that a file of its own has, as they are in the merged configuration."""
    return {**below, **{key: merged[key] for key in own}} if isinstance(own, Mapping) else _list(merged)


def _list(value: object) -> object:
    """Split `tp_mlp,grad_ar`, a list as given on the command line."""
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value
