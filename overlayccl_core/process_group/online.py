"""Tuning while a script trains: each call in one of its proven ways; the fastest is found in the training itself.

The first rank of a group leads: it times its calls, and says by a *plan* in the group's store in which ways the
next calls of a key are made. The others take the plan. A plan holds from one call of its key to another, counted
alike on all ranks, so no two ranks ever make the same call in different ways. A rank waits for a plan only where it
would wait in the call itself: the leader writes it before it takes part in the first call that it is for.

Once all ways have been tried a plan is for many calls. The leader watches their times: if they change, it tries
again. Every way is proven, so trying one cannot change what is trained beyond the rounding of its class.
"""

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
SETTLED = 256
"""Calls of a plan without."""
COLD = 8
"""First calls of a key, which nobody counts."""
LONGEST = 64
"""Calls of one half of a pair: those of a training step, if they are no more."""


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
        name: Of the call and the ranks of its group.
        arms: Its ways, the same on all ranks; the first is the script's own call.
        store: The group's, for plans.
        digest: Of the ways: a plan is for these.
        found: The way that was found before; what counts is the leader's.
        leads: Whether this rank writes the plans.
        before: How many groups of these ranks and of the group's name had such a call before: their plans may
            still be in the store.
        settled: Called on the leader when all ways are tried.
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
        leads: bool,
        before: int = 0,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        self.key, self.arms, self.leads = key, {arm.way: arm for arm in arms}, leads
        self.descent = Descent(arms if found is None else (found,), found or arms[0])
        self.watch = Watch()
        self.reopened: list[int] = []
        self._store, self._digest, self._settled = store, digest, settled
        self._name = f"overlayccl: plan of {name}, {before}, "
        self._plan = CallPlan(0, COLD, arms[0].way, "")
        self._seconds: dict[int, float] = {}  # call -> its time
        self._count = 0
        self._step_began = 0
        self._of_step = 1

    def way(self) -> str:
        """Return the way of the next call, and count it: it counts on all ranks, whatever becomes of it here."""
        if self._count == self._plan.until:
            self._plan = self._next() if self.leads else self._taken()
        self._count += 1
        return self._plan.way(self._count - 1, self._name)

    def took(self, seconds: float) -> None:
        """Note the time of that call."""
        if self.leads:
            self._seconds[self._count - 1] = seconds

    def close(self) -> None:
        """The group is destroyed."""
        self._store = None

    def end_step(self) -> None:
        """A training step of the script is over."""
        self._of_step = max(1, min(self._count - self._step_began, LONGEST))
        self._step_began = self._count

    @property
    def is_settled(self) -> bool:
        """Whether no way is on trial now."""
        return not self._plan.on_trial

    @property
    def found(self) -> TunedArm | None:
        """The way that was found; None while some are not tried."""
        return self.descent.best if self.descent.trial is None else None

    @property
    def calls(self) -> int:
        """Calls so far."""
        return self._count

    def _next(self) -> CallPlan:
        """Learn from the calls of the plan that is over, and write the next."""
        self._learn()
        on_trial = "" if self.descent.trial is None else self.descent.trial.way
        until = self._count + (2 * EXPLORING * self._of_step if on_trial else SETTLED)
        plan = CallPlan(self._count, until, self.descent.best.way, on_trial, self._of_step)
        said = json.dumps({**plan._asdict(), "ways": self._digest})
        self._store.set(f"{self._name}{plan.first}", f"{zlib.crc32(said.encode()):08x} {said}")
        return plan

    def _learn(self) -> None:
        plan, seconds, self._seconds = self._plan, self._seconds, {}
        if plan.on_trial:
            pairs = []
            for begin in range(plan.first, plan.until, 2 * plan.half):
                halves = [range(at, at + plan.half) for at in (begin, begin + plan.half)]
                if all(call in seconds for half in halves for call in half):  # else one failed
                    first, second = (sum(seconds[call] for call in half) for half in halves)
                    is_first = plan.way(begin, self._name) == plan.on_trial
                    pairs.append((second, first) if is_first else (first, second))
            if self.descent.feed(pairs) and self.descent.trial is None:
                self._settled()
        elif self.descent.trial is None and any([self.watch.feed(one) for one in seconds.values()]):
            self.reopened.append(self._count)
            self.descent = Descent(tuple(self.arms.values()), self.descent.best)
            self.watch = Watch()

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

    def begin(self, name: str, arms: Sequence[TunedArm]) -> TunedArm | None:
        """Return the way that was found for a call, if it is one of these."""
        found = self._rows.get(name, {}).get("way")
        return next((arm for arm in arms if arm.way == found), None)

    def add(self, name: str, tuner: "Tuner") -> None:
        """Add what was found of a call that settled, and write the file."""
        if self._file is None or tuner.found is None:
            return
        with self._lock:  # groups have threads of their own
            trials = _trials(tuner.descent.trials) or self._rows.get(name, {}).get("trials", [])
            row = {"key": [*tuner.key], **tuner.found._asdict(), "trials": trials}
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
