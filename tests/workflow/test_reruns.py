"""What may run after a change is what depends on it, and nothing else: asked of the real DAG, all outputs made.

A plan is made before anything runs: it holds what stands behind a table that will be made again, though a run
leaves that out where the table comes out equal. What does run is in test_early_cutoff.py.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.workflow.repository import ROOT, copy_to, python

PROBLEMS = ("grad_ar", "tp_mlp", "uniform_a2a")
TRAINED = ("grad_ar", "tp_mlp")
MODELS_OF = {"tp_mlp": "nano", "grad_ar": "nano-dp"}
AFTER_CONFIRM = {"summary", "report"}
AFTER_TRAINING = {"choose", "confirm", "summary", "report"}
AFTER_BENCH = {"finalists", "train", *AFTER_TRAINING}
AFTER_SEED = {"price", "search", "shortlist", "bench", *AFTER_BENCH}
AFTER_ASKING = frozenset({"trial", "mended_search", *AFTER_SEED} - {"price"})
MODEL = {"fit", *AFTER_SEED}
RULES = {"selftest", "probe", "cases", "seed", *MODEL}
MEASURED = RULES - {"cases"}  # the rules that measure, and what is behind them
CORE = "overlayccl_core"
CONFIG = "config/config.yaml"
STEPS = [f"results/local/train/{model}/steps.parquet" for model in MODELS_OF.values()]

OTHERS: dict[str, dict[str, object]] = {  # in what it is another machine (plans.py)
    "another version of torch is installed": {"torch": "9.9.9"},
    "results of another host": {"host": "elsewhere"},
    "another allocator": {"environment": {"LD_PRELOAD": "libjemalloc.so"}},
    "the library's interface": {"environment": {"GLOO_SOCKET_IFNAME": "eth0"}},
}


@dataclass(frozen=True)
class Row:
    """A change and the rules that may run, no others, for `problems` where they have one."""

    name: str
    may_run: set[str]
    edits: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # path -> (what stands there, what then does)
    config: dict[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = PROBLEMS
    gone: tuple[str, ...] = ()  # outputs that a job which failed took with it
    machine: dict[str, object] = field(default_factory=dict)  # in what it is another one (plans.py)
    asked: frozenset[str] = frozenset()  # what may run besides, where a search asks a language model
    on_trn1: set[str] | None = (
        None  # what may run there, where no model is trained; None: the same without that
    )


def appended(path: str, text: str = "\nADDED = 1\n") -> dict[str, tuple[str, str]]:
    """An edit that adds a statement."""
    return {path: ("", text)}


def new_column(table: str, before: str) -> dict[str, tuple[str, str]]:
    """An edit that adds a column to a table."""
    column = 'Column(name="note", dtype=pl.String()),'
    return {f"{CORE}/tables/{table}.py": (f"        {before}", f"        {column}\n        {before}")}


ROWS = [
    Row("nothing changed", set()),
    Row("a feature of the cost model", MODEL, appended(f"{CORE}/costmodel/features.py")),
    Row(
        "one Problem's file",
        {"cases", "seed", *AFTER_SEED} - {"train"},
        appended(f"{CORE}/problems/uniform_a2a.py"),
        problems=("uniform_a2a",),
    ),
    Row(
        "one Problem's seed library",
        {"seed", *AFTER_SEED},
        appended(f"{CORE}/strategies/grad_ar.py"),
        problems=("grad_ar",),
    ),
    Row("a rewrite rule", AFTER_SEED - {"price"}, appended(f"{CORE}/rewrites/rules/merge.py")),
    Row("the proposer of a search", AFTER_SEED - {"price"}, appended(f"{CORE}/search/proposers/offline.py")),
    Row("a column of theta", MODEL, new_column("theta", "FINGERPRINT,\n")),
    Row("a column of candidates", AFTER_SEED - {"price"}, new_column("candidates", "FINGERPRINT,\n")),
    Row(
        "a column of the shortlist", AFTER_SEED - {"price", "search"}, new_column("shortlist", "NUMERICS,\n")
    ),
    Row(
        "a column of the verdicts",
        AFTER_TRAINING,
        new_column("choice", "*VERDICT_COLUMNS,\n"),
    ),
    Row("a column of summary", {"summary", "report"}, new_column("summary", "*CANDIDATE_KEY,\n")),
    Row("a column of confirmed", AFTER_CONFIRM | {"confirm"}, new_column("confirmed", "CANDIDATE_KEY[2],\n")),
    Row(
        "seconds of the launches that confirm",
        AFTER_CONFIRM | {"confirm"},
        {CONFIG: ("launches: 4\n  seconds: ", "launches: 4\n  seconds: 1")},
    ),
    Row("the training gate", AFTER_TRAINING, appended(f"{CORE}/gates/training.py")),
    Row("the choice", AFTER_TRAINING, appended(f"{CORE}/gates/choice.py")),
    Row("the bench gate", AFTER_BENCH, appended(f"{CORE}/gates/bench.py")),
    Row(
        "the step driver",
        {"train", *AFTER_TRAINING},
        appended(f"{CORE}/training/driver.py"),
        problems=TRAINED,
        on_trn1={"confirm", *AFTER_CONFIRM},  # which also times models, if there are any
    ),
    Row(
        "what a model computes",
        {"train", *AFTER_TRAINING},
        appended(f"{CORE}/training/models/llama.py"),
        problems=TRAINED,
        on_trn1=set(),
    ),
    Row("what is deployed", AFTER_TRAINING, appended(f"{CORE}/emit/deployed.py")),
    Row("what a deployed module does", AFTER_TRAINING, appended(f"{CORE}/emit/runtime/groups.py")),
    Row(
        "the calls in emitted modules",
        RULES - {"cases"},
        appended(f"{CORE}/backends/torchdist/calls.py"),
        on_trn1=set(),
    ),
    Row(
        "a comment",
        set(),
        appended(f"{CORE}/program/nodes.py", "\n# A comment.\n")
        | appended(f"{CORE}/backends/timing.py", "\n# A comment.\n")
        | appended("workflow_scripts/probe.py", "\n# A comment.\n")
        | appended("config/models/nano.yaml", "# A comment.\n")
        | appended("config/searches/offline.yaml", "# A comment.\n")
        | appended("config/deployments/local.yaml", "# A comment.\n"),
    ),
    Row(
        "a docstring",
        set(),
        {f"{CORE}/configuration/settings.py": ('"""The configuration, typed', '"""Configuration, typed')},
    ),
    Row(
        "seconds of the bench",
        {"bench", *AFTER_BENCH},
        {CONFIG: ("both directions\n  seconds: ", "both directions\n  seconds: 1")},
    ),
    Row(
        "families of the shortlist",
        AFTER_SEED - {"price", "search"},
        {CONFIG: ("  families: ", "  families: 1")},
    ),
    Row(
        "seconds of the training",
        {"train", *AFTER_TRAINING},
        {CONFIG: ("launches: 5\n  seconds: ", "launches: 5\n  seconds: 1")},
        problems=TRAINED,
    ),
    Row(
        "rounds of the search",
        AFTER_SEED - {"price"},
        {"config/searches/offline.yaml": ("rounds: ", "rounds: 1")},
    ),
    Row(
        "the memory that Programs are held to",
        {"seed", *AFTER_SEED},
        {"config/deployments/local.yaml": ("memory_budget: 512MiB", "memory_budget: 513MiB")},
    ),
    Row("bootstraps of the fit", MODEL, {CONFIG: ("  bootstraps: 200", "  bootstraps: 201")}),
    Row("the held-out seed on the command line", {"probe", *MODEL}, config={"heldout_seed": 7}),
    Row(
        "a Case of one Problem",
        {"cases", "seed", *AFTER_SEED} - {"train"},
        {CONFIG: ("payload: 512KiB", "payload: 256KiB")},
        problems=("uniform_a2a",),
    ),
    Row(
        "a backend's file that only the ranks run",
        RULES - {"cases"},
        appended(f"{CORE}/backends/torch_ranks/timer.py"),
    ),
    Row("a fit that failed", MODEL, gone=("results/local/theta.parquet", "results/local/fidelity.parquet")),
    Row(
        "a search that failed",
        AFTER_SEED - {"price", "train"},
        gone=("results/local/problems/uniform_a2a/search/offline/candidates.parquet",),
        problems=("uniform_a2a",),
    ),
    Row("a training that failed", {"train", *AFTER_TRAINING}, gone=tuple(STEPS), problems=TRAINED),
    *(Row(f"{name}: what was measured stays", set(), machine=machine) for name, machine in OTHERS.items()),
    *(
        Row(f"{name}: measured again", MEASURED, machine=machine, config={"machine": "here"})
        for name, machine in OTHERS.items()
    ),
    Row("measured again, where it was measured", set(), config={"machine": "here"}),
    Row(
        "threads, which ranks have one of",
        set(),
        machine={"environment": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "ANYTHING_ELSE": "1"}},
    ),
    Row("a command of people", set(), appended(f"{CORE}/cli/render.py")),
    Row("a figure of the report", {"report"}, appended(f"{CORE}/report/charts.py")),
    Row("the page's look", {"report"}, appended(f"{CORE}/report/style.css", "\nb { color: red }\n")),
    Row(
        "Python written in another way",
        set(),
        {f"{CORE}/costmodel/fit.py": ("import numpy as np\n", "import  numpy  as  np\n\n\n")},
    ),
    Row(
        "the text of a rule's command",
        MODEL,
        {
            "rules/cost_model.smk": (
                '"python -m workflow_scripts.fit ',
                '"true && python -m workflow_scripts.fit ',
            )
        },
    ),
    Row(
        "another backend's files",
        set(),
        appended(f"{CORE}/backends/torchxla/backend.py"),
        on_trn1=RULES - {"cases", "train"},
    ),
    Row(
        "another launcher",
        set(),
        appended(f"{CORE}/backends/launchers/slurm.py"),
        on_trn1=RULES - {"cases", "train"},
    ),
    Row("a proposer that no search has", set(), appended(f"{CORE}/search/proposers/random.py")),
    Row("a model that is not trained", set(), appended("config/models/nano-wide.yaml", "\nseed: 7\n")),
    Row(
        "the counts of microbatches of a model",
        {"cases", "seed", *AFTER_SEED},
        {"config/models/nano.yaml": ("microbatches: [1, 4]", "microbatches: [1, 2, 4]")},
        problems=("tp_mlp",),
    ),
    Row(
        "what the deployment's file says of its ranks",
        RULES - {"cases"},
        {"config/deployments/local.yaml": ("memory_budget:", "start_timeout_s: 130\nmemory_budget:")},
    ),
    Row(
        "a prompt",
        set(),
        appended(f"{CORE}/search/prompts/standing.md", "\nAnd be brief.\n"),
        asked=AFTER_ASKING,
    ),
    Row("a style of asking", set(), appended(f"{CORE}/search/styles/enumerate.py"), asked=AFTER_ASKING),
]
CLUSTER = {"deployment": "trn1"}
ASKED = {"proposer": "command", "command": "python examples/answer.py"}
BASES: dict[str, dict[str, object]] = {
    "preset smoke": {"preset": "smoke"},
    "preset evidence": {"preset": "evidence"},
    "preset cluster, on a cluster": CLUSTER,
    "two searches, of which one asks": ASKED,
}
EVERYWHERE = [  # those of code: what is configured is another thing in another preset
    row
    for row in ROWS
    if not (row.config or row.gone or row.machine or any(path.startswith("config/") for path in row.edits))
]


def narrowed(text: str) -> str:
    """The configuration with three Problems and two models: what holds for them holds for all."""
    text, problems = re.subn(r"problems:\s+\[[^]]*\]", f"problems: [{', '.join(PROBLEMS)}]", text, count=1)
    text, models = re.subn(
        r"\nmodels: \[[^]]*\]", f"\nmodels: [{', '.join(MODELS_OF.values())}]", text, count=1
    )
    assert problems == models == 1
    return text


def edited(path: str, change: tuple[str, str]) -> str:
    """A file's text after a change; an empty first half appends."""
    text = (ROOT / path).read_text()
    text = narrowed(text) if path == CONFIG else text
    old, new = change
    if not old:
        return text + new
    assert text.count(old) >= 1, f"{path} has no {old!r}"
    return text.replace(old, new, 1)


def planned(folder: Path, base: dict[str, object], rows: Sequence[Row]) -> dict[str, dict[str, list[str]]]:
    """The jobs that each row plans, after a run as `base` says."""
    root = copy_to(folder)
    (root / CONFIG).write_text(narrowed((root / CONFIG).read_text()))
    steps = [
        {
            "edits": {path: edited(path, change) for path, change in row.edits.items()},
            "config": row.config,
            "gone": list(row.gone),
            "machine": row.machine,
        }
        for row in rows
    ]
    done = python(root, "tests/workflow/plans.py", text=json.dumps({"base": base, "steps": steps}))
    assert done.returncode == 0, done.stderr
    return dict(zip([row.name for row in rows], json.loads(done.stdout), strict=True))


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """As it is configured."""
    return planned(tmp_path_factory.mktemp("repository"), {}, ROWS)


@pytest.fixture(scope="module", params=BASES)
def others(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, dict[str, list[str]]]]:
    """A name in BASES, and what the rows plan there that do not hang on the configuration."""
    return request.param, planned(tmp_path_factory.mktemp("other"), BASES[request.param], EVERYWHERE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_depends_on_a_change_is_planned_and_nothing_else(
    row: Row, plans: dict[str, dict[str, list[str]]]
) -> None:
    planned = plans[row.name]
    assert set(planned) == row.may_run
    for rule, subjects in planned.items():
        expected = (
            sorted(MODELS_OF[p] for p in row.problems if p in MODELS_OF) if rule == "train" else row.problems
        )
        assert subjects in ([""], sorted(expected)), rule


def test_it_is_the_same_with_other_presets_and_with_several_searches(
    others: tuple[str, dict[str, dict[str, list[str]]]],
) -> None:
    base, plans = others
    asks = BASES[base] == ASKED
    for row in EVERYWHERE:
        may_run = row.may_run
        if base == "preset evidence" and "tp_mlp" not in row.problems:
            may_run = set()
        if asks:
            may_run = may_run | row.asked
            may_run = may_run | ({"trial", "mended_search"} if "search" in may_run else set())
        if BASES[base] == CLUSTER:
            may_run = may_run - {"train"} if row.on_trn1 is None else row.on_trn1
        assert set(plans[row.name]) == may_run, row.name
