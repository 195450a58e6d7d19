"""The sections of the configuration: what each phase measures and computes, and each target of its own."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from overlayccl_core.configuration.fields import Fields, unique
from overlayccl_core.configuration.names import (
    Name,
    Names,
    SearchId,
    SingleCalls,
    first_rounds,
    known_problem,
    known_problems,
)
from overlayccl_core.configuration.searches import Begin, Search
from overlayccl_core.configuration.sizes import KIB, Bytes


class _Bounded(Fields):
    """Fields of which some are `minimum_...`, each with its `maximum_...`."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name, low in self:
            most = name.replace("minimum_", "maximum_")
            if most != name and low > (high := getattr(self, most)):
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
        description="how many of each model; what the first ones find much slower is in no later one",
    )
    seconds: float = Field(
        gt=0, description="of the timed steps of one launch, all arms and microbatches together"
    )
    loss_steps: int = Field(ge=1, description="of every arm and seed where losses are compared")
    loss_seeds: int = Field(ge=1, description="seeds of the compared losses")


class ConfirmSection(_Timing, _Steps):
    """Fresh launches after all choices, which choose nothing: the only source of a run's verdicts."""

    launches: int = Field(ge=1, description="how many; from 3 on they are what intervals are over")
    step_seconds: float = Field(gt=0, description="of the timed steps of each model in one launch")
    apart: bool = Field(
        description="whether a model's steps are taken apart into computing and calls (`overlayccl overlap`)"
    )


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


class DecomposeSection(_Steps):
    """Arms between the developer's calls and the deployed ones: the target `decompose`."""

    minimum_launches: int = Field(default=4, ge=1, description="of each model; from 3 on they give intervals")
    maximum_launches: int = Field(default=10, ge=1, description="of each model, if the interval stays wide")
    half_width: float = Field(
        default=0.05,
        gt=0,
        lt=1,
        description="of the interval of the whole, as a part, at which no launch is added",
    )
    seconds: float = Field(default=6, gt=0, description="of the timed steps of a launch, of all arms")


class TuneSection(_Timing):
    """All proven ways of single calls in one launch, and tuners on their samples: the target `tune`."""

    again: _Timing = Field(
        default=_Timing(seconds=90.0, minimum_rounds=24, maximum_rounds=120),  # of an older file
        description="a second launch, by which is chosen: of each call's own way and its fastest others",
    )
    calls: SingleCalls | None = Field(default=None, description="one call each; a captured step has its own")


class SweepMSection(_Steps):
    """Arms of each model at all its numbers of microbatches, in launches that choose nothing: target `sweep_m`."""

    launches: int = Field(
        ge=1, description="how many of each model; from 3 on they are what intervals are over"
    )
    seconds: float = Field(
        gt=0, description="of the timed steps of a launch, all arms and microbatches together"
    )


class SweepPayloadSection(_Timing):
    """All proven known ways of a Problem at payloads from small to large: the target `sweep_payload`."""

    problem: Annotated[Name, AfterValidator(known_problem)] = Field(
        default="uniform_a2a", description="a Problem whose Cases have a `payload`"
    )
    payloads: Annotated[tuple[Bytes, ...], AfterValidator(unique)] = Field(
        default=tuple(2 * KIB * 2**power for power in range(12)),
        min_length=1,
        description="bytes of a rank, each a Case",
    )
    launches: int = Field(
        default=3,
        ge=1,
        description="how many, each with all ways; from 3 on they are what intervals are over",
    )


class DriftSection(Fields):
    """Some probes are timed again: the target `drift`."""

    seconds: float = Field(gt=0, description="of timing, in one launch")
    probes_of_a_kind: int = Field(ge=2, description="of each kind of call, and of local work, at most")
    mixed: int = Field(ge=0, description="held-out random Programs, at most")
