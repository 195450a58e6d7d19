"""Changes, and the rules that may run after each: what test_reruns.py asks the real DAG for."""

import re
from collections.abc import Set
from dataclasses import dataclass, field

from tests.workflow.graph import behind

PROBLEMS = ("grad_ar", "tp_mlp", "uniform_a2a")
TRAINED = ("grad_ar", "tp_mlp")
MODELS = ("nano", "nano-dp")
PROBLEM_OF = {"nano-dp": "grad_ar", **dict.fromkeys(("nano", "nano-small", "nano-m8", "nano-wide"), "tp_mlp")}
RULES = behind("selftest", "cases")  # all of them
HAVE_SETTINGS = behind("probe", "cases", "segments")
CORE = "overlayccl_core"
CONFIG = "config/config.yaml"
TREE = "results/local"
STEPS = [f"{TREE}/train/{model}/steps.parquet" for model in MODELS]

# Each part of a machine's fingerprint is in tests/launching/test_fingerprint.py
OTHER: dict[str, object] = {
    "torch": "9.9.9",
    "kernel": "9.9",
    "environment": {"LD_PRELOAD": "libjemalloc.so", "GLOO_SOCKET_IFNAME": "eth0"},
}
SAME: dict[str, object] = {  # names, places of files, what is logged, and threads, which ranks have one of
    "host": "elsewhere",
    "environment": {
        "CUDA_HOME": "/opt/cuda",
        "TORCH_HOME": "/opt/torch",
        "MKL_ROOT": "/opt/mkl",
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "2",
        "MKL_NUM_THREADS": "2",
        "ANYTHING_ELSE": "1",
    },
}


Plan = dict[str, list[str]]  # rule -> its Problems, or its models, or an empty text


@dataclass(frozen=True)
class Row:
    """A change and the rules that may run, no others, for `problems` where they have one."""

    name: str
    may_run: Set[str]
    edits: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # path -> (what stands there, what then does)
    config: dict[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = PROBLEMS
    gone: tuple[str, ...] = ()  # outputs that a job which failed took with it
    machine: dict[str, object] = field(default_factory=dict)  # in what it is another one (plans.py)
    asked: Set[str] = frozenset()  # what may run besides, where a search asks a language model
    on_trn1: Set[str] | None = None  # what may run there, where no model is trained; None: the same

    @property
    def of_code(self) -> bool:
        """Whether the package's code is all that changes."""
        others = self.config or self.gone or self.machine
        return not others and all(path.startswith(f"{CORE}/") for path in self.edits)


def narrowed(text: str) -> str:
    """The configuration with three Problems and two models: what holds for them holds for all."""
    text, problems = re.subn(r"problems:\s+\[[^]]*\]", f"problems: [{', '.join(PROBLEMS)}]", text, count=1)
    text, models = re.subn(r"\nmodels: \[[^]]*\]", f"\nmodels: [{', '.join(MODELS)}]", text, count=1)
    assert problems == models == 1
    return text


def appended(path: str, text: str = "\nADDED = 1\n") -> dict[str, tuple[str, str]]:
    """An edit that adds a statement."""
    return {path: ("", text)}


def new_column(table: str, before: str) -> dict[str, tuple[str, str]]:
    """An edit that adds a column to a table."""
    column = 'text("note"),'
    return {f"{CORE}/tables/{table}.py": (f"        {before}", f"        {column}\n        {before}")}


ROWS = [
    Row("a feature of the cost model", behind("fit"), appended(f"{CORE}/costmodel/features.py")),
    Row(
        "one Problem's file",
        behind("cases"),
        appended(f"{CORE}/problems/uniform_a2a.py"),
        problems=("uniform_a2a",),
    ),
    Row(
        "one Problem's known ways",
        behind("known_ways"),
        appended(f"{CORE}/strategies/grad_ar.py"),
        problems=("grad_ar",),
    ),
    Row(
        "ways that Problems share",
        behind("known_ways"),
        appended(f"{CORE}/strategies/ways/sums.py"),
        problems=(*TRAINED, "layer_block_ar", "dist_ce"),
    ),
    Row("a rewrite rule", behind("search"), appended(f"{CORE}/rewrites/rules/merge.py")),
    Row("the proposer of a search", behind("search"), appended(f"{CORE}/search/proposers/offline.py")),
    Row("a column of theta", behind("fit"), new_column("theta", "FINGERPRINT,\n")),
    Row("a column of candidates", behind("search"), new_column("candidates", "FINGERPRINT,\n")),
    Row("a column of the shortlist", behind("shortlist"), new_column("shortlist", "NUMERICS,\n")),
    Row("a column of the verdicts", behind("choose"), new_column("choice", "*VERDICT_COLUMNS,\n")),
    Row("a column of summary", behind("summary", "report"), new_column("summary", "*CANDIDATE_KEY,\n")),
    Row("a column of confirmed", behind("confirm"), new_column("confirmed", "CANDIDATE_KEY[2],\n")),
    Row(
        "seconds of the launches that confirm",
        behind("confirm"),
        {CONFIG: ("seconds: 9 # of what is", "seconds: 6 # of what is")},
    ),
    Row("the training gate", behind("choose"), appended(f"{CORE}/gates/training.py")),
    Row("what stands", behind("confirm"), appended(f"{CORE}/evidence/standing.py")),
    Row("how a file is published", behind("deploy"), appended(f"{CORE}/tables/published.py")),
    Row("a column of what is deployed", behind("deploy"), new_column("deployed", "CHOSEN_AS,\n")),
    Row("what a run says first", behind("report"), appended(f"{CORE}/report/sentences.py")),
    Row("the choice", behind("choose"), appended(f"{CORE}/gates/choice.py")),
    Row("the bench gate", behind("finalists", "price_ablation"), appended(f"{CORE}/gates/bench.py")),
    Row(
        "the step driver",
        behind("segments", "finalists"),  # which price steps by it
        appended(f"{CORE}/step/driver.py"),
        on_trn1=behind("finalists"),
    ),
    Row(
        "what a model computes",
        behind("segments", "train"),
        appended(f"{CORE}/training/models/llama.py"),
        problems=TRAINED,
        on_trn1=set(),
    ),
    Row("what is deployed", behind("choose"), appended(f"{CORE}/emit/deployed.py")),
    Row("what a deployed module does", behind("choose"), appended(f"{CORE}/emit/runtime/groups.py")),
    Row(
        "the calls in emitted modules",
        behind("selftest"),
        appended(f"{CORE}/backends/torchdist/calls.py"),
        on_trn1=set(),
    ),
    Row(
        "a comment",
        set(),
        appended(f"{CORE}/program/nodes.py", "\n# A comment.\n")
        | appended(f"{CORE}/timing/batch.py", "\n# A comment.\n")
        | appended(f"{CORE}/stages/probe.py", "\n# A comment.\n")
        | appended("workflow_scripts/stage.py", "\n# A comment.\n")
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
        behind("bench"),
        {CONFIG: ("both directions\n  seconds: ", "both directions\n  seconds: 1")},
    ),
    Row(
        "families of the shortlist",
        behind("shortlist"),
        {CONFIG: ("  families: ", "  families: 1")},
    ),
    Row(
        "steps of the training",
        behind("train"),
        {CONFIG: ("  loss_steps: ", "  loss_steps: 1")},
        problems=TRAINED,
    ),
    Row(
        "rounds of the search",
        behind("search"),
        {"config/searches/offline.yaml": ("rounds: ", "rounds: 1")},
    ),
    Row(
        "the memory that Programs are held to",
        behind("known_ways"),
        {"config/deployments/local.yaml": ("memory_budget: 512MiB", "memory_budget: 513MiB")},
    ),
    Row("bootstraps of the fit", behind("fit"), {CONFIG: ("  bootstraps: 200", "  bootstraps: 201")}),
    Row("the held-out seed on the command line", behind("probe"), config={"heldout_seed": 7}),
    Row(
        "a Case of one Problem",
        behind("cases"),
        {CONFIG: ("payload: 64KiB", "payload: 128KiB")},
        problems=("uniform_a2a",),
    ),
    Row(
        "a backend's file that only the ranks run",
        behind("selftest"),
        appended(f"{CORE}/backends/torch_ranks/timer.py"),
    ),
    Row(
        "a fit that failed",
        behind("fit"),
        gone=("results/local/theta.parquet", "results/local/fidelity.parquet"),
    ),
    Row(
        "a search that failed",
        behind("search"),
        gone=("results/local/problems/uniform_a2a/search/offline/candidates.parquet",),
        problems=("uniform_a2a",),
    ),
    Row("a training that failed", behind("train"), gone=tuple(STEPS), problems=TRAINED),
    Row("the selftest's table is gone", behind("selftest"), gone=(f"{TREE}/selftest.parquet",)),
    Row("how right the cost model is, is gone", behind("fit"), gone=(f"{TREE}/fidelity.parquet",)),
    Row(
        "what ran at a model's sites is gone",
        behind("train"),
        gone=(f"{TREE}/train/nano-dp/stamps.parquet",),
        problems=("grad_ar",),
    ),
    Row(
        "how a bench was made is gone",
        behind("bench"),
        gone=(f"{TREE}/problems/tp_mlp/bench.sidecar.json",),
        problems=("tp_mlp",),
    ),
    Row(
        "the sketches of a search are gone",
        behind("search"),
        gone=(f"{TREE}/problems/uniform_a2a/search/offline/sketches.parquet",),
        problems=("uniform_a2a",),
    ),
    Row(
        "what was confirmed of stamps is gone",
        behind("confirm"),
        gone=(f"{TREE}/confirmed_stamps.parquet",),
    ),
    Row(
        "names in another order",
        set(),
        config={"problems": "uniform_a2a,tp_mlp,grad_ar", "models": "nano-dp,nano"},
    ),
    Row("another machine: what was measured stays", set(), machine=OTHER),
    Row("another machine: measured again", behind("selftest"), machine=OTHER, config={"machine": "here"}),
    Row("measured again, where it was measured", set(), machine=SAME, config={"machine": "here"}),
    Row("a command of people", set(), appended(f"{CORE}/cli/render.py")),
    Row("a figure of the report", behind("report"), appended(f"{CORE}/report/charts.py")),
    Row("the page's look", behind("report"), appended(f"{CORE}/report/style.css", "\nb { color: red }\n")),
    Row(
        "Python written in another way",
        set(),
        {f"{CORE}/costmodel/fit.py": ("import numpy as np\n", "import  numpy  as  np\n\n\n")},
    ),
    Row(
        "the text of all rules' command",
        RULES,
        {"rules/common.smk": ('STAGE = "python', 'STAGE = "true && python')},
    ),
    Row("what runs all stages", RULES, appended("workflow_scripts/stage.py")),
    Row("how long a rule is expected to take", set(), appended(f"{CORE}/dag/probe.py")),
    Row(
        "another backend's files",
        set(),
        appended(f"{CORE}/backends/torchxla/backend.py"),
        on_trn1=behind("selftest"),
    ),
    Row(
        "another launcher",
        set(),
        appended(f"{CORE}/launching/launchers/slurm.py"),
        on_trn1=behind("selftest"),
    ),
    Row("a proposer that no search has", set(), appended(f"{CORE}/search/proposers/random.py")),
    Row("a model that is not trained", set(), {"config/models/nano-wide.yaml": ("layers: 4", "layers: 5")}),
    Row(
        "words about a field",
        set(),
        {
            f"{CORE}/configuration/sections.py": (
                "how many random Programs judge",
                "so many random Programs judge",
            )
        },
    ),
    Row("words about a column", set(), {f"{CORE}/tables/steps.py": ('doc="', 'doc="In other words: ')}),
    Row("how a run begins", set(), appended("workflow_scripts/one_run.py")),
    Row("what is found out about a tree's machine", set(), appended("workflow_scripts/records.py")),
    # what reruns although nothing that is measured depends on it (CONTRIBUTING.md)
    Row("how a job ends with its run", RULES, appended("workflow_scripts/following.py")),
    Row("how far a job is", RULES, appended(f"{CORE}/measuring/progress.py")),
    Row("a field of the target ablations", HAVE_SETTINGS, appended(f"{CORE}/configuration/sections.py")),
    Row("the fields of a search", HAVE_SETTINGS, appended(f"{CORE}/configuration/searches.py")),
    Row("names of arms", RULES, appended(f"{CORE}/measuring/frameworks.py")),
    Row("statistics", behind("selftest"), appended(f"{CORE}/measuring/statistics.py")),
    Row(
        "the counts of microbatches of a model",
        behind("cases", "segments"),
        {"config/models/nano.yaml": ("microbatches: [1, 4]", "microbatches: [1, 2, 4]")},
        problems=("tp_mlp",),
    ),
    Row(
        "what the deployment's file says of its ranks",
        behind("selftest"),
        {"config/deployments/local.yaml": ("memory_budget:", "start_timeout_s: 130\nmemory_budget:")},
    ),
    Row(
        "a prompt",
        set(),
        appended(f"{CORE}/search/prompts/standing.md", "\nAnd be brief.\n"),
        asked=behind("search"),
    ),
    Row("a style of asking", set(), appended(f"{CORE}/search/styles/enumerate.py"), asked=behind("search")),
    Row(
        "words of a rewrite rule's docstring, which a search tells on",
        behind("search"),
        {f"{CORE}/rewrites/rules/merge.py": ('"""{C(x_i)} ->', '"""Merge: {C(x_i)} ->')},
    ),
    Row(
        "words of a Problem's docstring, which a language model is told",
        set(),
        {f"{CORE}/problems/uniform_a2a.py": ('"""uniform_a2a: every rank', '"""uniform_a2a: each rank')},
        problems=("uniform_a2a",),
        asked=behind("search"),
    ),
]
CLUSTER = {"deployment": "trn1"}
ASKED = {"proposer": "command", "command": "python examples/answer.py"}
OF_CLUSTER, OF_ASKED = "preset cluster, on a cluster", "two searches, of which one asks"
BASES: dict[str, dict[str, object]] = {
    **{preset: {"preset": preset} for preset in ("smoke", "evidence")},
    OF_CLUSTER: CLUSTER,
    OF_ASKED: ASKED,
}
# Those of code: what is configured is another thing in another preset. A search that asks has all ways.
EVERYWHERE = [
    row
    for row in ROWS
    if not (
        row.config
        or row.gone
        or row.machine
        or any(path.startswith("config/") or "/ways/" in path for path in row.edits)
    )
]
