"""The configuration, typed: what is measured and computed (machines are profiles, clusters deployments)."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import jsonschema
import yaml

FILE = "config/config.yaml"
DEFAULT = "default"
SCHEMA = Path(__file__).resolve().parents[2] / "config" / "config.schema.yaml"
OVERRIDES = ("deployment", "preset", "problems", "models", "heldout_seed")
WITHOUT_MEANING = {
    "search": "searches are files in config/searches, named under `searches` in the configuration",
    "proposer": "it is a field of a file in config/searches",
    "command": "no proposer here runs commands",
    "max_usd": "nothing here costs money",
    "source": "`overlayccl try FILE::FUNC` takes a strategy of your own",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One launch that times structured, mixed (`mixed` of seed `mixed_seed`) and `heldout` Programs.

    Rounds follow from `seconds`, at most `maximum_rounds`; with fewer than `minimum_rounds` the run says so.
    What is fitted gets `rounds_of_fitted`: there the number of Programs matters more.
    """

    seconds: float
    minimum_rounds: int
    maximum_rounds: int
    rounds_of_fitted: int
    mixed: int
    mixed_seed: int
    heldout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One launch for each Problem; rounds as in Probe."""

    seconds: float
    minimum_rounds: int
    maximum_rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """bootstraps: of theta's intervals. ridge: of the scaled problem. seed: of the draws."""

    bootstraps: int
    ridge: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """What is timed at each Case and direction, besides the developer's and the other obvious strategies.

    families: how many families of the search send their cheapest Program. random: proven candidates drawn with
    `seed`, without which the regret of the model's choice would be of its own favourites only. at_least: filled
    up with the next cheapest to so many, if so many are proven.
    """

    families: int
    random: int
    at_least: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """Training launches of each model; ratios differ more between launches than within one.

    seconds: of the timed steps of one launch, all arms and microbatches together; steps follow from it, at least
    `minimum_steps` and at most `maximum_steps`. loss_steps: of every arm and seed where losses are compared.
    """

    launches: int
    seconds: float
    minimum_steps: int
    maximum_steps: int
    loss_steps: int
    loss_seeds: int


SECTIONS = {"probe": Probe, "bench": Bench, "fit": Fit, "shortlist": Shortlist, "train": Train}
NAMES = ("problems", "models", "searches")  # lists of names; `tp_mlp,grad_ar` on the command line


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of the configuration, its preset applied.

    cases: Problem -> entries as they stand in the file; the Problem reads and checks their fields. Models (files
    in config/models) add those of their sites.
    A job gets the part that its rule declares (`part`, `from_part`): any other field raises, so that no job
    depends on a value whose change would not run it again.
    """

    deployment: str
    preset: str
    problems: tuple[str, ...]
    models: tuple[str, ...]
    searches: tuple[str, ...]
    heldout_seed: int
    cases: Mapping[str, tuple[Mapping[str, Any], ...]]
    probe: Probe
    fit: Fit
    shortlist: Shortlist
    bench: Bench
    train: Train

    @property
    def tree(self) -> str:
        """The folder below results/: the deployment's, and one of its own for every preset but the default."""
        return self.deployment if self.preset == DEFAULT else f"{self.deployment}-{self.preset}"

    def part(self, *names: str) -> str:
        """Some fields as JSON with sorted keys: equal values, equal text."""
        whole = asdict(self)
        return json.dumps({name: whole[name] for name in names}, sort_keys=True)

    def of_problem(self, problem: str) -> "Settings":
        """These settings with the Cases of one Problem only."""
        return replace(self, problems=(problem,), cases={problem: self.cases.get(problem, ())})

    @classmethod
    def from_part(cls, text: str) -> "Settings":
        """Settings with the fields of `part` only."""
        given = _typed(json.loads(text))
        partial = object.__new__(cls)
        for name, value in given.items():
            object.__setattr__(partial, name, value)
        return partial

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name in {field.name for field in fields(self)}:
                raise AttributeError(
                    f"settings.{name} is not among the fields that this rule declares: add it"
                )
            raise AttributeError(f"settings have no field {name!r}")


def load(
    config: Mapping[str, Any], *, overrides: Iterable[str] = (), file: str = FILE, schema: Path = SCHEMA
) -> Settings:
    """Settings from the configuration as read (`overrides`: keys that came from --config).

    ValueError: field, mend, and the file (another may have overridden the field).
    """
    overrides = tuple(overrides)
    check_overrides(overrides)
    data = {**config, **{name: _list(config.get(name)) for name in NAMES}}
    _validate(data, yaml.safe_load(schema.read_text()), file)
    preset, presets = data["preset"], data.pop("presets")
    if preset not in presets:
        raise _wrong(file, f"preset: there is no {preset!r}: {_hint(preset, presets)}")
    for name, values in presets[preset].items():
        data[name] = {**data[name], **values} if name in SECTIONS else values
    for name in NAMES:
        if name in overrides:
            data[name] = _list(config[name])
    _check_across(data, file)
    return Settings(**_typed(data))


def _check_across(data: Mapping[str, Any], file: str) -> None:
    if data["heldout_seed"] == data["probe"]["mixed_seed"]:
        raise _wrong(
            file,
            f"heldout_seed must differ from probe.mixed_seed (both are {data['heldout_seed']}): "
            "the model would be judged on the Programs that it was fitted on",
        )
    for section, what in (("probe", "rounds"), ("bench", "rounds"), ("train", "steps")):
        low, high = data[section][f"minimum_{what}"], data[section][f"maximum_{what}"]
        if low > high:
            raise _wrong(
                file, f"{section}.minimum_{what} must be at most maximum_{what} (got {low} and {high})"
            )


def read(file: str | Path = FILE, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings from a file, as the pipeline reads them, with the keys of --config."""
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file: run from the repository's root")
    try:
        config = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path}: must be a mapping of fields (got {type(config).__name__})")
    return load({**config, **(overrides or {})}, overrides=overrides or (), file=str(path))


def check_overrides(keys: Iterable[str]) -> None:
    """ValueError for a key that --config may not set."""
    for key in keys:
        if key in WITHOUT_MEANING:
            raise ValueError(f"--config {key}: has no meaning in this release: {WITHOUT_MEANING[key]}")
        if key not in OVERRIDES:
            raise ValueError(
                f"--config {key}: is no override key: {_hint(key, OVERRIDES)}; "
                "anything else goes into a file given as --configfile"
            )


def _typed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as read from JSON or YAML, with the types of Settings."""
    typed = dict(data)
    typed |= {name: tuple(typed[name]) for name in NAMES if name in typed}
    if "cases" in typed:
        typed["cases"] = {problem: tuple(entries) for problem, entries in typed["cases"].items()}
    for name, section in SECTIONS.items():
        if name in typed:
            typed[name] = section(**typed[name])
    return typed


def _list(value: object) -> object:
    """`tp_mlp,grad_ar`, as the command line gives it, is a list too."""
    return [item.strip() for item in value.split(",")] if isinstance(value, str) else value


def _validate(data: object, schema: dict[str, Any], file: str) -> None:
    errors = jsonschema.Draft202012Validator(schema).iter_errors(data)
    first = min(errors, key=lambda error: [str(part) for part in error.absolute_path], default=None)
    if first is None:
        return
    where = ".".join(str(part) for part in first.absolute_path)
    if first.validator == "additionalProperties" and isinstance(first.instance, dict):
        allowed = list(first.schema["properties"])
        unknown = next(key for key in first.instance if key not in allowed)
        field = f"{where}.{unknown}" if where else str(unknown)
        raise _wrong(file, f"{field}: there is no such field: {_hint(str(unknown), allowed)}")
    mend = first.schema.get("description")
    raise _wrong(file, f"{where or 'top level'}: {first.message}" + (f" ({mend})" if mend else ""))


def _wrong(file: str, message: str) -> ValueError:
    """Which file a field came from is not known here: --configfile and --config override the first one."""
    return ValueError(f"configuration: {message} ({file} and what overrides it)")


def _hint(word: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose among {', '.join(names)}"
