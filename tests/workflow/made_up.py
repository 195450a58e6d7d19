"""Put on the path of a copy as sitecustomize: measuring rules take made-up times and start no ranks.

Every process that works for a rule adds a line `RULE SUBJECT` to started.txt: what ran, in order. The functions of
the stages that measure are replaced by ones whose rows depend on the Programs alone, so that a table differs
where the Programs that are measured do. All else is the real command.
"""

import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
OPTIONS = ("--problem", "--model")
RUNNER = "workflow_scripts.stage"


def started() -> str:
    """The rule that this process works for, after noting it; empty for other processes."""
    words = sys.orig_argv
    rule = words[words.index(RUNNER) + 1] if RUNNER in words else ""
    if rule:
        subject = next((words[words.index(option) + 1] for option in OPTIONS if option in words), "")
        with (ROOT / "started.txt").open("a") as file:
            file.write(f"{rule} {subject}\n")
    return rule


def selftest(deployment: Any, partial_dir: Path, **_: Any) -> dict[str, Any]:
    """A library that passes, and can do everything."""
    from tests.fake_timings import FINGERPRINT
    from tests.stages.flow import capabilities

    nothing = dict.fromkeys(("operation", "group_size", "stride", "dtype", "payload_bytes"))
    check = nothing | {"check": "made up", "outcome": "pass", "detail": "", "fingerprint": FINGERPRINT}
    can = [row | {"fingerprint": FINGERPRINT} for row in capabilities().iter_rows(named=True)]
    return {"selftest": [check], "capabilities": can}


def probe(deployment: Any, settings: Any, *_: Any, **__: Any) -> Any:
    """Probes at their made-up times; with more seconds all of them a little slower, as on another day."""
    from overlayccl_core.probes.sweep import probes_of
    from tests.stages.flow import timed

    slower = 1 + settings.probe.seconds / 1000
    rows = timed(probes_of(deployment, settings))
    return [row | {"samples_us": [slower * us for us in row["samples_us"]]} for row in rows]


def time_probes(probes: Any, *_: Any, **__: Any) -> Any:
    """Some probes at their made-up times."""
    from tests.stages.flow import timed

    return timed(list(probes))


def trial(deployment: Any, search: str, candidates: Any, *_: Any, **__: Any) -> Any:
    """Sketches that all run; that none does where the copy has a file refuse.txt."""
    from overlayccl_core.stages.trial import KEY
    from overlayccl_core.tables.trials import TRIALS
    from tests.rows import row

    status, message = ("raised", "no such call") if (ROOT / "refuse.txt").exists() else ("right_values", "")
    rows = candidates.filter(candidates["origin"] == "sketch").select(KEY).to_dicts()
    told = {"search": search, "status": status, "message": message}
    return [row(TRIALS, **one, **told) for one in rows]


def bench(deployment: Any, settings: Any, shortlist: Any, *_: Any, **__: Any) -> Any:
    """The shortlist at its made-up times; with more rounds, other samples of the same times."""
    from tests.fake_timings import bench_rows

    return bench_rows(shortlist.iter_rows(named=True), rounds=settings.bench.maximum_rounds)


def train(
    deployment: Any, settings: Any, model: Any, finalists: Mapping[str, Any], *_: Any, **__: Any
) -> dict[str, Any]:
    """Every arm of the finalists at a speed of its own."""
    import polars as pl

    from tests.stages.training import train_tables

    rows = pl.concat(finalists.values())
    with tempfile.TemporaryDirectory() as folder:
        steps, stamps = train_tables(rows, Path(folder), model=model.name)
    return {"steps": steps.to_dicts(), "stamps": stamps.to_dicts()}


def confirm(
    deployment: Any, settings: Any, problems: Mapping[str, Any], models: Any, *_: Any, **__: Any
) -> dict[str, Any]:
    """What is deployed and what needs no search, at their made-up times; steps as in training."""
    import polars as pl

    from overlayccl_core.evidence.choices import rows_of
    from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH, ArmName
    from overlayccl_core.program.json_form import loads
    from overlayccl_core.tables.confirmed import CONFIRMED
    from tests.fake_timings import timing_columns
    from tests.rows import row
    from tests.stages.training import train_tables

    rows = {problem: rows_of(decided) for problem, decided in problems.items()}
    confirmed = [
        row(
            CONFIRMED,
            problem=problem,
            **{key: one[key] for key in ("case", "direction", "arm", "candidate")},
            **timing_columns(loads(one["program_json"]), launch=launch),
        )
        for problem, listed in rows.items()
        for one in listed
        for launch in range(settings.confirm.launches)
        if one["arm"] in (*NEEDS_NO_SEARCH, ArmName.DEPLOYED)
    ]
    steps, stamps = [], []
    for model in models:
        frame = pl.DataFrame([one for listed in rows.values() for one in listed], infer_schema_length=None)
        with tempfile.TemporaryDirectory() as folder:
            tables = train_tables(frame, Path(folder), model=model.name)
        steps += tables[0].to_dicts()
        stamps += tables[1].to_dicts()
    return {"confirmed": confirmed, "confirmed_steps": steps, "confirmed_stamps": stamps}


def segments(*_: Any, **__: Any) -> list[dict[str, Any]]:
    """None: no step has a price."""
    return []


MADE_UP = {
    "selftest": selftest,
    "probe": probe,
    "segments": segments,
    "trial": trial,
    "bench": bench,
    "train": train,
    "confirm": confirm,
}

if (rule := started()) in MADE_UP:
    import_module(f"overlayccl_core.stages.{rule}").run = MADE_UP[rule]  # type: ignore[attr-defined]
elif rule in ("ask_probes", "time_probes"):  # all but the launch is the real stage
    import_module(f"overlayccl_core.stages.{rule}").time_probes = time_probes  # type: ignore[attr-defined]
elif rule == "report":  # what it draws is tested elsewhere, and takes its time
    import_module("overlayccl_core.report.page").page = lambda _: "<html></html>"  # type: ignore[attr-defined]
