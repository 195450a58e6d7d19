"""Tuning while a script trains: each call in one of its proven ways; the fastest is found in the training itself.

The first rank of a group leads: it times its calls, and says by a *plan* in the group's store in which ways the
next calls of a key are made. The others take the plan. A plan holds from one call of its key to another, counted
alike on all ranks, so no two ranks ever make the same call in different ways. A rank waits for a plan only where it
would wait in the call itself: the leader writes it before it takes part in the first call that it is for.

A call that the script waits for is judged by its own time. One that goes on beside others or behind computing is
judged by the time of the whole step, as in Lagom (2026): what it gains itself may be lost by what it disturbs. Of
these one is on trial at a time.

Once all ways have been tried a plan is for many calls. The leader watches their times: if they change, it tries
again. Every way is proven, so trying one cannot change what is trained beyond the rounding of its class.
"""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .descent import ArmTrial, Descent, TunedArm, Watch
from .parts import FOUND, Key

EXPLORING = 2
"""Pairs of a plan with a way on trial."""
SETTLED = 16
"""Training steps of a plan without: so late a change is seen."""
ABSENT = 16
"""Training steps without a call of a key that is on trial: then another that overlaps may be."""
COLD = 8
"""First calls of a key, which nobody counts."""
LONGEST = 64
"""Calls of one half of a pair: those of a training step, if they are no more. Nothing is tried before the first
step is over, or so many calls."""


class CallPlan(NamedTuple):
    """The ways of calls `first` to `until`, without the last. on_trial: empty, or it takes turns with the best.

    half: Calls in one way, one after the other; two halves are a pair.
    """

    first: int
    until: int
    best: str
    on_trial: str
    half: int = 1

    def way(self, call: int, name: str) -> str:
        """Return the way of a call: of each pair one half is on trial, by chance the first or the second.

        name: Of the tuner: those of other calls draw for themselves.
        """
        if not self.on_trial:
            return self.best
        pair, at = divmod(call - self.first, 2 * self.half)
        [drawn] = hashlib.blake2b(f"{name}{self.first} {pair}".encode(), digest_size=1).digest()
        return self.on_trial if at // self.half == drawn % 2 else self.best


class Tuner:
    """The ways of one call in one group, on one rank.

    Args:
        key: The call.
        name: Of the call in this group, and in no other: plans of a group that is gone may still be in the store.
        arms: Its ways, the same on all ranks; the first is the script's own call.
        store: The group's, for plans.
        digest: Of the ways: a plan is for these.
        found: The way that was found before; what counts is the leader's.
        known: Trials of a run before, if not all ways were tried then.
        leads: Whether this rank writes the plans.
        keep: Called on the leader after each trial; whoever wants the latest times kept calls it later.
        turn: Held by the one of the calls that overlap that is on trial now.
    """

    def __init__(
        self,
        key: Key,
        name: str,
        arms: Sequence[TunedArm],
        store: Any,
        digest: str,
        *,
        found: TunedArm | None = None,
        known: Sequence[ArmTrial] = (),
        leads: bool,
        keep: Callable[[], None] = lambda: None,
        turn: threading.Lock | None = None,
    ) -> None:
        self.key, self.arms, self.leads = key, {arm.way: arm for arm in arms}, leads
        self.descent = Descent(arms if found is None else (found,), found or arms[0], known=known)
        self.watch = Watch()
        self.reopened: list[int] = []
        self._store, self._digest, self.keep = store, digest, keep
        self._name = f"overlayccl: plan of {name}, "
        self._plan = CallPlan(0, COLD, arms[0].way, "")
        self._turn, self._has_turn = turn or threading.Lock(), False
        self._begun: dict[int, float] = {}  # call -> when it was issued
        self._seconds: dict[int, float] = {}  # call -> its time
        self._overlaps = False  # whether the script goes on before a call of this plan is over
        self._count = 0
        self._step_began: int | None = None
        self._of_step = 1
        self._absent = 0  # steps without a call

    def way(self, now: float, *, is_awaited: bool = True) -> str:
        """Return the way of the next call, and count it: it counts on all ranks, whatever becomes of it here.

        Args:
            now: When the script issued it, in seconds.
            is_awaited: The script waits for it before it does anything else.
        """
        if self._count == self._plan.until:
            self._plan = self._next(now) if self.leads else self._taken()
        if self.leads:
            self._begun[self._count] = now
            self._overlaps |= not is_awaited
        self._count += 1
        return self._plan.way(self._count - 1, self._name)

    def took(self, seconds: float) -> None:
        """Note the time of that call."""
        if self.leads:
            self._seconds[self._count - 1] = seconds

    def close(self) -> None:
        """The group is destroyed."""
        self._store = None
        self._give_turn()

    def end_step(self) -> None:
        """A training step of the script is over."""
        calls = self._count - (self._step_began or 0)
        self._of_step, self._step_began = max(1, min(calls, LONGEST)), self._count
        self._absent = 0 if calls else self._absent + 1
        if self._absent == ABSENT:
            self._give_turn()

    @property
    def found(self) -> TunedArm | None:
        """The way that was found; None while some are not tried."""
        return self.descent.best if self.descent.trial is None else None

    @property
    def calls(self) -> int:
        """Calls so far."""
        return self._count

    def _next(self, now: float) -> CallPlan:
        """Learn from the calls of the plan that is over, and write the next."""
        self._learn(now)
        trial = self.descent.trial
        length = SETTLED if trial is None else 2 * EXPLORING
        on_trial = trial.way if trial is not None and self._may_try() else ""
        plan = CallPlan(
            *(
                self._count,
                self._count + length * self._of_step,
                self.descent.best.way,
                on_trial,
                self._of_step,
            )
        )
        said = json.dumps({**plan._asdict(), "ways": self._digest})
        self._store.set(f"{self._name}{plan.first}", f"{zlib.crc32(said.encode()):08x} {said}")
        self._overlaps = False
        return plan

    def _may_try(self) -> bool:
        if self._step_began is None and self._count < LONGEST:
            return False
        if self._overlaps and not self._has_turn:
            self._has_turn = self._turn.acquire(blocking=False)
        return self._has_turn or not self._overlaps

    def _give_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._turn.release()

    def _learn(self, now: float) -> None:
        plan, halves = self._plan, self._halves(now)
        if plan.on_trial:
            pairs = []
            for at in range(0, len(halves), 2):
                first, second = halves[at : at + 2]
                if first and second:
                    is_first = plan.way(plan.first + at * plan.half, self._name) == plan.on_trial
                    pairs.append((second, first) if is_first else (first, second))
            if pairs and self.descent.feed(pairs):
                self._give_turn()
                self.keep()
            return
        is_watched = self.descent.trial is None and plan.first  # the first calls are cold
        if is_watched and any([self.watch.feed(seconds / plan.half) for seconds in halves if seconds]):
            self.reopened.append(self._count)
            self.descent = Descent(tuple(self.arms.values()), self.descent.best)
            self.watch = Watch()

    def _halves(self, now: float) -> list[float | None]:
        """Return the seconds of each half of the plan that is over; None: a call failed."""
        plan, begun, seconds = self._plan, {**self._begun, self._count: now}, self._seconds
        self._begun, self._seconds = {}, {}
        firsts = range(plan.first, plan.until, plan.half)
        if self._overlaps:  # from the first call to that of the next half: a step
            return [begun[first + plan.half] - begun[first] for first in firsts]
        of = [[seconds.get(call) for call in range(first, first + plan.half)] for first in firsts]
        return [None if None in half else sum(filter(None, half)) for half in of]

    def _taken(self) -> CallPlan:
        """Wait for the leader's plan."""
        check, _, said = self._store.get(f"{self._name}{self._count}").decode().partition(" ")
        plan = json.loads(said) if check == f"{zlib.crc32(said.encode()):08x}" else {}
        if plan.pop("ways", None) != self._digest:
            raise RuntimeError(
                f"the plan of the leader for call {self._count} of {self.key} is not of these ways"
            )
        return CallPlan(**plan)


class Findings:
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
        self._lock = threading.Lock()
        if self._file is not None and self._file.is_file():
            try:
                told = json.loads(self._file.read_text())
                self._rows = told["calls"] if told["where"] == where else {}
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{self._file} is no file of findings ({error!r}): remove it") from error

    def begin(
        self, name: str, key: Key, role: str, arms: Sequence[TunedArm]
    ) -> tuple[TunedArm | None, list[ArmTrial]]:
        """Return the way that was found for a call, if it is one of these; and the trials, if not all were made.

        Of a group that is new: what was found for such a call of another group in that role.
        """
        alike = (row for row in self._rows.values() if (row["key"], row["role"]) == ([*key], role))
        row, of = self._rows.get(name) or next(alike, {}), {arm.way: arm for arm in arms}
        if row.get("done", True):
            return of.get(row.get("way", "")), []
        pairs_to_high = ("pairs", "low", "ratio", "high")
        return None, [
            ArmTrial(of[one["way"]], of[one["best"]], *(one[name] for name in pairs_to_high))
            for one in row["trials"]
            if one["way"] in of and one["best"] in of
        ]

    def add(self, name: str, role: str, tuner: Tuner) -> None:
        """Add what was found of a call so far, with its latest time, and write the file.

        Of calls that go on beside others the time is that of the step, divided by their number.
        """
        if self._file is None:
            return
        with self._lock:  # groups have threads of their own
            trials = _trials(tuner.descent.trials) or self._rows.get(name, {}).get("trials", [])
            latest = tuner.watch.latest_s
            best, is_done = tuner.descent.best, tuner.found is not None
            row = {"key": [*tuner.key], "role": role, **best._asdict(), "done": is_done, "trials": trials}
            row["us"] = self._rows.get(name, {}).get("us") if latest is None else latest * 1e6
            self._rows[name] = row
            self._file.parent.mkdir(parents=True, exist_ok=True)
            partial = self._file.with_suffix(".part")
            partial.write_text(json.dumps({"where": self._where, "calls": self._rows}, indent=1))
            partial.replace(self._file)


def _trials(trials: Sequence[ArmTrial]) -> list[dict[str, Any]]:
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
