"""Tuning while a script trains: each call in one of its proven ways; the fastest is found in the training itself.

The first rank of a group leads: it times its calls, and says by a *plan* in the group's store in which ways the
next calls of a key are made. The others take the plan. A plan holds from one call of its key to another, counted
alike on all ranks, so no two ranks ever make the same call in different ways. A rank waits for a plan only where it
would wait in the call itself: the leader writes it before it takes part in the first call that it is for.

Once all ways have been tried a plan is for many calls. The leader watches their times: if they change, it tries
again. Every way is proven, so trying one cannot change what is trained beyond the rounding of its class.
"""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .descent import Arm, Descent, Trial, Watch
from .parts import FOUND, Key

EXPLORING = 2
"""Pairs of a plan with a way on trial."""
SETTLED = 256
"""Calls of a plan without."""
COLD = 8
"""First calls of a key, which nobody counts."""
LONGEST = 64
"""Calls of one half of a pair: those of a training step, if they are no more."""


class Plan(NamedTuple):
    """The ways of calls `first` to `until`, without the last. on_trial: empty, or it takes turns with the best.

    half: Calls in one way, one after the other; two halves are a pair.
    """

    first: int
    until: int
    best: str
    on_trial: str
    half: int = 1

    def way(self, call: int) -> str:
        """Return the way of a call: of each pair one half is on trial, by chance the first or the second."""
        if not self.on_trial:
            return self.best
        pair, at = divmod(call - self.first, 2 * self.half)
        is_second = zlib.crc32(f"{self.first} {pair}".encode()) % 2
        return self.on_trial if at // self.half == is_second else self.best


class Tuner:
    """The ways of one call in one group, on one rank.

    Args:
        key: The call.
        arms: Its ways, the same on all ranks; the first is the script's own call.
        store: The group's, for plans.
        digest: Of the ways: a plan is for these.
        found: The way that was found before; what counts is the leader's.
        leads: Whether this rank writes the plans.
        before: How many groups of this name had such a call before: their plans may still be in the store.
    """

    def __init__(
        self,
        key: Key,
        arms: Sequence[Arm],
        store: Any,
        digest: str,
        *,
        found: Arm | None = None,
        leads: bool,
        before: int = 0,
    ) -> None:
        self.key, self.arms, self.leads = key, {arm.way: arm for arm in arms}, leads
        self.descent = Descent(arms if found is None else (found,), found or arms[0])
        self.watch = Watch()
        self.reopened: list[int] = []
        self._store, self._digest = store, digest
        self._name = f"overlayccl: plan of {' '.join(map(str, key))}, {before}, "
        self._plan = Plan(0, COLD, arms[0].way, "")
        self._seconds: list[float] = []
        self._count = 0
        self._step_began = 0
        self._of_step = 1

    def way(self) -> str:
        """Return the way of the next call."""
        if self._count == self._plan.until:
            self._plan = self._next() if self.leads else self._taken()
        return self._plan.way(self._count)

    def took(self, seconds: float | None) -> None:
        """Count that call; its time, if anybody knows it."""
        self._count += 1
        if self.leads and seconds is not None:
            self._seconds.append(seconds)

    def end_step(self) -> None:
        """A training step of the script is over."""
        self._of_step = max(1, min(self._count - self._step_began, LONGEST))
        self._step_began = self._count

    @property
    def is_settled(self) -> bool:
        """Whether no way is on trial now."""
        return not self._plan.on_trial

    @property
    def found(self) -> Arm | None:
        """The way that was found; None while some are not tried."""
        return self.descent.best if self.descent.trial is None else None

    @property
    def calls(self) -> int:
        """Calls so far."""
        return self._count

    def _next(self) -> Plan:
        """Learn from the calls of the plan that is over, and write the next."""
        self._learn()
        on_trial = "" if self.descent.trial is None else self.descent.trial.way
        until = self._count + (2 * EXPLORING * self._of_step if on_trial else SETTLED)
        plan = Plan(self._count, until, self.descent.best.way, on_trial, self._of_step)
        said = json.dumps({**plan._asdict(), "ways": self._digest})
        self._store.set(f"{self._name}{plan.first}", f"{zlib.crc32(said.encode()):08x} {said}")
        return plan

    def _learn(self) -> None:
        plan, seconds, self._seconds = self._plan, self._seconds, []
        if plan.on_trial:
            pairs, half = [], plan.half
            for begin in range(0, len(seconds), 2 * half):
                first, second = (sum(seconds[at : at + half]) for at in (begin, begin + half))
                is_first = plan.way(plan.first + begin) == plan.on_trial
                pairs.append((second, first) if is_first else (first, second))
            self.descent.feed(pairs)
        elif self.descent.trial is None and any([self.watch.feed(one) for one in seconds]):
            self.reopened.append(self._count)
            self.descent = Descent(tuple(self.arms.values()), self.descent.best)
            self.watch = Watch()

    def _taken(self) -> Plan:
        """Wait for the leader's plan."""
        check, _, said = self._store.get(f"{self._name}{self._count}").decode().partition(" ")
        plan = json.loads(said) if check == f"{zlib.crc32(said.encode()):08x}" else {}
        if plan.pop("ways", None) != self._digest:
            raise RuntimeError(
                f"the plan of the leader for call {self._count} of {self.key} is not of these ways"
            )
        return Plan(**plan)


class Kept:
    """What a leader found, in a file of its own: the next run of the same ways on the same software begins there.

    Args:
        folder: Gets `tuned-<rank>.json`; None: nothing is kept.
        rank: Of this process.
        where: What the findings hold for: ways, versions, hosts.
    """

    def __init__(self, folder: Path | None, rank: int, where: dict[str, Any]) -> None:
        self._file = None if folder is None else folder / FOUND.replace("*", str(rank))
        self._where = where
        self._rows: dict[str, dict[str, Any]] = {}
        if self._file is not None and self._file.is_file():
            try:
                told = json.loads(self._file.read_text())
                self._rows = told["calls"] if told["where"] == where else {}
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{self._file} is no file of findings ({error!r}): remove it") from error

    def begin(self, name: str, arms: Sequence[Arm]) -> Arm | None:
        """Return the way that was found for a call, if it is one of these."""
        found = self._rows.get(name, {}).get("way")
        return next((arm for arm in arms if arm.way == found), None)

    def write(self, found: dict[str, "Tuner"]) -> None:
        """Write what was found of calls that settled."""
        if self._file is None or not found:
            return
        for name, tuner in found.items():
            if tuner.found is not None:
                self._rows[name] = {**tuner.descent.best._asdict(), "trials": _trials(tuner.descent.trials)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".part")
        partial.write_text(json.dumps({"where": self._where, "calls": self._rows}, indent=1))
        partial.replace(self._file)


def _trials(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    of = ("pairs", "low", "ratio", "high")
    return [
        {"way": one.arm.way, "best": one.best.way, **{name: getattr(one, name) for name in of}}
        for one in trials
    ]


def told(tuner: Tuner) -> str:
    """Return in a line what was found of a call."""
    key, descent = tuner.key, tuner.descent
    call = f"{key.kind} of {key.elements} {key.dtype} on {key.ranks} ranks"
    own = next(iter(tuner.arms.values()))
    tried = f"{len(descent.trials)} of {len(tuner.arms) - 1} ways tried in {tuner.calls} calls"
    state = "" if descent.trial is None else ", not all"
    again = f", begun again at call {', '.join(map(str, tuner.reopened))}" if tuner.reopened else ""
    best = "as it is" if descent.best == own else descent.best.way
    return f"{call}: {best} ({tried}{state}{again})"
