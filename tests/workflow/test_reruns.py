"""A change reruns what depends on it, and nothing else: asked of the real DAG, every output already made."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.workflow.repository import ROOT, copy_to, python

PROBLEMS = ("grad_ar", "tp_mlp", "uniform_a2a")
RULES = {"selftest", "probe", "fit", "cases", "seed", "price", "bench", "compare", "summary"}
CORE = "overlayccl_core"


@dataclass(frozen=True)
class Row:
    """A change, the rules that must run (for `problems`, where they have one), and some that must not."""

    name: str
    runs: set[str]
    never: set[str]
    edits: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # path -> (what stands there, what then does)
    config: dict[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = PROBLEMS


def appended(path: str, text: str = "\nADDED = 1\n") -> dict[str, tuple[str, str]]:
    """An edit that adds a statement."""
    return {path: ("", text)}


MODEL = {"fit", "price", "compare", "summary"}
ROWS = [
    Row("nothing changed", set(), RULES),
    Row(
        "a feature of the cost model",
        MODEL,
        {"selftest", "probe", "cases", "seed", "bench"},
        appended(f"{CORE}/costmodel/features.py"),
    ),
    Row(
        "one Problem's file",
        {"cases", "seed", "price", "bench", "compare", "summary"},
        {"selftest", "probe", "fit"},
        appended(f"{CORE}/problems/uniform_a2a.py"),
        problems=("uniform_a2a",),
    ),
    Row(
        "one Problem's seed library",
        {"seed", "price", "bench", "compare", "summary"},
        {"selftest", "probe", "fit", "cases"},
        appended(f"{CORE}/strategies/grad_ar.py"),
        problems=("grad_ar",),
    ),
    Row(
        "a column of theta",
        MODEL,
        {"selftest", "probe", "cases", "seed", "bench"},
        {
            f"{CORE}/tables/theta.py": (
                "FINGERPRINT,\n",
                'FINGERPRINT,\n        Column(name="note", dtype=pl.String()),\n',
            )
        },
    ),
    Row(
        "a column of summary",
        {"summary"},
        RULES - {"summary"},
        {
            f"{CORE}/tables/summary.py": (
                '_number("speedup_low"),',
                '_number("speedup_low"), _number("gain"),',
            )
        },
    ),
    Row(
        "a comment",
        set(),
        RULES,
        appended(f"{CORE}/program/nodes.py", "\n# A comment.\n")
        | appended(f"{CORE}/backends/timing.py", "\n# A comment.\n")
        | appended("workflow_scripts/probe.py", "\n# A comment.\n")
        | appended("config/deployments/local.yaml", "# A comment.\n"),
    ),
    Row(
        "a docstring",
        set(),
        RULES,
        {f"{CORE}/settings.py": ('"""The configuration, typed', '"""Configuration, typed')},
    ),
    Row(
        "seconds of the bench",
        {"bench", "compare", "summary"},
        {"selftest", "probe", "fit", "cases", "seed", "price"},
        {"config/config.yaml": ("bench: # one launch for each Problem\n  seconds: ", "bench:\n  seconds: 1")},
    ),
    Row(
        "the memory that Programs are held to",
        {"seed", "price", "bench", "compare", "summary"},
        {"selftest", "probe", "fit", "cases"},
        {"config/deployments/local.yaml": ("memory_budget: 512MiB", "memory_budget: 513MiB")},
    ),
    Row(
        "bootstraps of the fit",
        MODEL,
        {"selftest", "probe", "cases", "seed", "bench"},
        {"config/config.yaml": ("  bootstraps: 200", "  bootstraps: 201")},
    ),
    Row(
        "the held-out seed on the command line",
        {"probe", *MODEL},
        {"selftest", "cases", "seed", "bench"},
        config={"heldout_seed": 7},
    ),
    Row(
        "a Case of one Problem",
        {"cases", "seed", "price", "bench", "compare", "summary"},
        {"selftest", "probe", "fit"},
        {"config/config.yaml": ("payload: 512KiB", "payload: 256KiB")},
        problems=("uniform_a2a",),
    ),
    Row(
        "a backend's file that only the ranks run",
        RULES - {"cases"},
        {"cases"},
        appended(f"{CORE}/backends/torchdist/worker.py"),
    ),
    Row("a command of people", set(), RULES, appended(f"{CORE}/cli/render.py")),
]


def edited(path: str, change: tuple[str, str]) -> str:
    """A file's text after a change; an empty first half appends."""
    text = (ROOT / path).read_text()
    old, new = change
    if not old:
        return text + new
    assert text.count(old) >= 1, f"{path} has no {old!r}"
    return text.replace(old, new, 1)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """The jobs that each row makes run."""
    root = copy_to(tmp_path_factory.mktemp("repository"))
    steps = [
        {"edits": {path: edited(path, change) for path, change in row.edits.items()}, "config": row.config}
        for row in ROWS
    ]
    done = python(root, "tests/workflow/plans.py", text=json.dumps({"steps": steps}))
    assert done.returncode == 0, done.stderr
    return dict(zip([row.name for row in ROWS], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_change_reruns_what_depends_on_it_and_nothing_else(
    row: Row, plans: dict[str, dict[str, list[str]]]
) -> None:
    planned = plans[row.name]
    assert set(planned) == row.runs
    assert not row.never & set(planned)
    assert row.never == RULES - row.runs
    for rule, problems in planned.items():
        assert problems in ([""], sorted(row.problems)), rule


def test_conda_environment_pins_what_the_requirements_pin() -> None:
    pinned = [
        line.split("#")[0].strip()
        for line in Path(ROOT / "envs/local.txt").read_text().splitlines()
        if "==" in line
    ]
    conda = yaml.safe_load((ROOT / "envs/local.yaml").read_text())["dependencies"][-1]["pip"]
    assert [line for line in conda if "==" in line] == pinned
