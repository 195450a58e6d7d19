"""A model that orders what it is told to, measurements that no ranks made, and the conversation between them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlayccl_core.asking.conversation import Answer, MadeBy, NoAnswer, Request, Stop, ToolCall, User
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sections import FitSection, ProbingSection
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.probes.asked.briefing import ProbeBriefing, columns_of
from overlayccl_core.probes.asked.chooser import Chooser
from overlayccl_core.probes.asked.order import ProbeTarget
from overlayccl_core.probes.probe import Probe
from overlayccl_core.probes.structured import structured_probes
from tests.asking.requests import Told, ledger
from tests.stages.flow import ROOT, capabilities, timed

LOCAL = load(ROOT / "config/deployments/local.yaml")
PLACE = ProbeTarget(deployment=LOCAL, mixed_seed=1)
CAN = Capabilities.from_rows(capabilities().iter_rows(named=True))
HOW = {"model": "", "temperature": None, "max_tokens": 1000, "sample": 0}
WANTED = columns_of(structured_probes(LOCAL))
SMALL = {"kind": "all_reduce", "payload_bytes": 1024}


def call(tool: str, **given: Any) -> tuple[str, dict[str, Any]]:
    return tool, given


def turn(*calls: tuple[str, dict[str, Any]], text: str = "") -> Answer:
    """An answer that calls tools."""
    made = tuple(ToolCall(id=str(n), name=name, input=given) for n, (name, given) in enumerate(calls))
    stop = Stop.TOOL_CALLS if made else Stop.END
    return Answer(text=text, calls=made, stop=stop, made_by=MadeBy.SCRIPTED)


@dataclass
class Ranks:
    """Measures by the made-up times; raises what `fails` has for a launch, by its number from 0."""

    fails: dict[int, Exception] = field(default_factory=dict)
    launches: list[list[str]] = field(default_factory=list)

    def measure(self, probes: Sequence[Probe]) -> list[dict[str, Any]]:
        self.launches.append([probe.name for probe in probes])
        if error := self.fails.get(len(self.launches) - 1):
            raise error
        return timed(list(probes))


@dataclass
class Talked:
    chooser: Chooser
    ranks: Ranks
    model: Told

    def outcomes(self) -> list[str]:
        return [one.outcome.value for one in self.chooser.asked]

    def messages(self) -> list[str]:
        return [one.message for one in self.chooser.asked]

    def said(self, number: int) -> User:
        """What the model was told last before its answer of that number."""
        message = self.model.asked[number].messages[-1]
        assert isinstance(message, User)
        return message

    def heard(self, number: int) -> list[str]:
        """The results of its calls that it was told then."""
        return [result.text for result in self.said(number).results]

    @property
    def first(self) -> Request:
        return self.model.asked[0]


def talk(
    folder: Path,
    *answers: Answer | NoAnswer,
    ranks: Ranks | None = None,
    ask: Callable[..., Any] = ledger,
    how: dict[str, Any] | None = None,
    **budget: float,
) -> Talked:
    """A conversation in which the answers come one after another, the last again and again."""
    ranks, model = ranks or Ranks(), Told(answers)
    chooser = Chooser(
        brief=ProbeBriefing(place=PLACE, capabilities=CAN, wanted=WANTED, rounds=8),
        budget=ProbingSection.from_data({"turns": 5, "probes": 20, "seconds": 100, "draws": 3} | budget),
        fit=FitSection(bootstraps=4, ridge=0.02, seed=0),
        ledger=ask(model, folder),
        how=HOW | (how or {}),
        measure=ranks.measure,
    )
    chooser.choose()
    return Talked(chooser, ranks, model)


def example() -> list[Answer]:
    """The turns of examples/probes.json."""
    turns = json.loads((ROOT / "examples/probes.json").read_text())
    return [turn(*(call(one["name"], **one["input"]) for one in calls)) for calls in turns]
