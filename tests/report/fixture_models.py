"""The made-up models of a tree: training by which was chosen, and the launches after it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from overlayccl_core.tables.deployed import SPLITS
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from tests.fake_timings import FINGERPRINT
from tests.report.fixture_rows import put, settings
from tests.rows import Row, row

Steps = Mapping[int, Mapping[str, float]]
"""microbatches -> arm -> ms of a step."""
LAUNCHES = 4
NANO: Steps = {
    1: {"developer": 168, "single_graph": 164, "best_known_way": 132, "finalist_1": 121, "finalist_2": 126},
    2: {"developer": 290, "single_graph": 240, "hand_bundled": 185, "best_known_way": 150, "finalist_1": 136},
    8: {"developer": 860, "single_graph": 640, "hand_bundled": 180, "best_known_way": 172, "finalist_1": 138},
}
DATA: Steps = {  # torch's own is faster than what is deployed
    1: {"developer": 230, "hand_bundled": 93, "finalist_1": 97, "ddp_0.25": 120, "ddp_1": 88, "ddp_25": 82}
}
SAME = {("nano", 1, "hand_bundled"): "single_graph", ("nano-dp", 1, "single_graph"): "developer"}
SEARCHED = ("finalist_1", "finalist_2")


def write_models(folder: Path, chosen: str, seeds: int, *, data: bool) -> None:
    """Tables of training, of the launches after it, and `splits`. chosen: the arm that is deployed in nano."""
    models = {"nano": (NANO, chosen)} | ({"nano-dp": (DATA, "hand_bundled")} if data else {})
    confirmed: list[Row] = []
    stamps: list[Row] = []
    splits: list[Row] = []
    for model, (ms, arm) in models.items():
        confirmed += _write_model(folder / "train" / model, model, ms, arm, seeds)
        stamps += [
            _stamp(CONFIRMED_STAMPS, model, m, one, ran_as)
            for m, one, ran_as in _arms(model, ms, deployed=True)
        ]
        splits += _splits(model, ms, arm)
    put(CONFIRMED_STEPS, confirmed, folder / "confirmed_steps.parquet", settings().part("confirm"))
    put(CONFIRMED_STAMPS, stamps, folder / "confirmed_stamps.parquet")
    put(SPLITS, splits, folder / "splits.parquet")


def split(model: str, microbatches: int, arm: str, us: float, **more: Any) -> Row:
    """A row of `splits`: of what needs no search, beside what is deployed."""
    known = {"ran_as": arm, "part": "beside", "needs_search": False, "launches": LAUNCHES, "disturbed": False}
    known |= {"peak_memory_bytes": 12 * 2**20, "fingerprint": FINGERPRINT}
    return row(SPLITS, model=model, microbatches=microbatches, arm=arm, step_us=us, **(known | more))


def deployed_speedup(value: float, low: float | None = None, high: float | None = None) -> Row:
    """The columns of a step over that of what is deployed."""
    return {"deployed_speedup": value, "deployed_speedup_low": low, "deployed_speedup_high": high}


def _arms(model: str, ms: Steps, *, deployed: bool) -> list[tuple[int, str, str]]:
    """(microbatches, arm, the arm as which it was trained)."""
    listed = [(m, arm, arm) for m, arms in ms.items() for arm in arms]
    listed += [(m, arm, same) for (of, m, arm), same in SAME.items() if of == model]
    return listed + ([(m, "deployed", "deployed") for m in ms] if deployed else [])


def _us(ms: Steps, m: int, arm: str, chosen: str) -> float:
    """The deployed file is a little slower than the module; where nothing beats developer, all others are."""
    if arm == "deployed":
        return 1.01 * _us(ms, m, chosen, chosen)
    us = 1e3 * ms[m][arm]
    return max(us, 1.2e3 * ms[1]["developer"]) if chosen == "developer" != arm else us


def _memory(m: int, arm: str) -> int:
    """Bytes: who computes one microbatch after the other holds the activations of one."""
    one_by_one = arm in ("developer", "single_graph")
    return round((13 / m if one_by_one else 12.7) * 2**20)


def _splits(model: str, ms: Steps, chosen: str) -> list[Row]:
    """What was chosen is so at M = 1; the rival is the fastest there that needs no search, or takes its place."""
    mine = _us(ms, 1, "deployed", chosen)
    by_hand = [arm for arm in ms[1] if arm not in (*SEARCHED, chosen)]
    rival = min(by_hand, key=lambda arm: _us(ms, 1, arm, chosen))
    rows = []
    for m, arm, ran_as in _arms(model, ms, deployed=True):
        us = _us(ms, m, ran_as, chosen)
        plain = chosen if arm == "deployed" and chosen not in SEARCHED else ran_as
        against = "instead" if 1.03 * us < 0.98 * mine else "rival"
        part = "deployed" if (m, arm) == (1, "deployed") else against if (m, arm) == (1, rival) else "beside"
        ratio = {} if part == "deployed" else deployed_speedup(us / mine, 0.97 * us / mine, 1.03 * us / mine)
        searched = plain in (*SEARCHED, "deployed")
        memory = _memory(m, chosen if arm == "deployed" else ran_as)
        rows.append(
            split(
                model,
                m,
                arm,
                us,
                ran_as=plain,
                part=part,
                needs_search=searched,
                peak_memory_bytes=memory,
                **ratio,
            )
        )
    return rows


def _write_model(folder: Path, model: str, ms: Steps, chosen: str, seeds: int) -> list[Row]:
    """Its training; the rows of `confirmed_steps`."""
    rows = []
    for m, arms in ms.items():
        for number, arm in enumerate(arms):
            us = _us(ms, m, arm, chosen)
            for launch in range(LAUNCHES):
                rows.append(_steps(STEPS, model, m, arm, "timed", launch, number, us))
            rows.append(_steps(STEPS, model, m, arm, "quiet", 0, number, 0.3 * us))
            if m == min(ms):
                rows += [_losses(model, m, arm, number, seed) for seed in range(seeds)]
    put(STEPS, rows, folder / "steps.parquet", settings().part("train"))
    stamps = [_stamp(STAMPS, model, m, arm, ran_as) for m, arm, ran_as in _arms(model, ms, deployed=False)]
    put(STAMPS, stamps, folder / "stamps.parquet")
    return [
        _steps(CONFIRMED_STEPS, model, m, arm, "timed", launch, number, _us(ms, m, arm, chosen))
        for m, arms in ms.items()
        for number, arm in enumerate([*arms, "deployed"])
        for launch in range(LAUNCHES)
    ]


def _stamp(table: Any, model: str, m: int, arm: str, ran_as: str) -> Row:
    return row(
        table,
        model=model,
        microbatches=m,
        arm=arm,
        ran_as=ran_as,
        site="exit",
        problem="tp_mlp",
        case="tp_mlp/n4",
        candidate="a_strategy",
        program=f"0123456789abcdef-{ran_as}",
        library="torch.distributed gloo",
        library_version="2.13.0",
        calls=256 if arm == "developer" else 32,
    )


def _steps(
    table: Any, model: str, m: int, arm: str, purpose: str, launch: int, number: int, us: float
) -> Row:
    together = np.random.default_rng([launch, m]).normal(size=9)  # what disturbs all arms of a launch
    alone = np.random.default_rng([launch, m, number, purpose == "quiet"]).normal(size=9)
    steps = us * np.exp(0.06 * together[0] + 0.04 * together[1:] + 0.02 * alone[1:])
    return row(
        table,
        model=model,
        microbatches=m,
        arm=arm,
        purpose=purpose,
        launch=launch,
        cold_us=[2 * us],
        steps_us=steps.tolist(),
        losses=[[5.5] * 4] * 8,
        collectives=4 * 8 * m if arm == "developer" else 32,
        peak_memory_bytes=_memory(m, arm),
        oversubscribed=True,
        foreign_cpu_share=0.02,
        disturbed=launch == 3,
        fingerprint=FINGERPRINT,
    )


def _losses(model: str, m: int, arm: str, number: int, seed: int) -> Row:
    steps = np.arange(40)
    losses = 3.0 + 2.5 * np.exp(-steps / 12) + 0.05 * np.random.default_rng(seed).normal(size=40)
    apart = 1e-7 * number * np.exp(steps / 10) * np.random.default_rng([seed, number]).normal(size=40)
    return row(
        STEPS,
        model=model,
        microbatches=m,
        arm=arm,
        purpose="loss",
        seed=seed,
        losses=[[loss] * 4 for loss in (losses * (1 + apart)).tolist()],
        validation_loss=3.1 + float(apart[-1]),
        oversubscribed=True,
        fingerprint=FINGERPRINT,
    )
