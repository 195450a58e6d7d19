"""Bad input is one message that names file, field and mend; nothing is half-written, nothing lost."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from overlayccl_core import catalog
from overlayccl_core.backends.torchdist import backend
from overlayccl_core.configuration import corpus
from overlayccl_core.deployments.capabilities import call_of
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.sandbox import tracing
from overlayccl_core.sandbox.confine import CannotConfine
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.table import write
from tests.workflow.repository import ROOT, copy_to, python, snakemake
from workflow_scripts.pipeline import prepare

CASE = {
    "case": "tp_mlp/n4-m1-l1-1KiB-f32",
    "problem": "tp_mlp",
    "ranks": 4,
    "groups": 1,
    "uniform": False,
    "strided": False,
    "ranks_per_node": 4,
    "dtype": "float32",
    "parameters": "{}",
    "payload_bytes": 1024,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("repository"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "presett=smoke"], "presett: .*'preset'"),
        (["--config", "problems=tp_mpl"], "problems: .*mpl.*'tp_mlp'"),
    ],
)
def test_a_wrong_command_line_stops_before_any_job(root: Path, arguments: list[str], message: str) -> None:
    done = snakemake(root, "--profile", "local", "all", *arguments)
    assert done.returncode != 0
    assert len(re.findall(message, done.stderr)) == 1 and re.search(message, done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr and "common.smk" not in done.stderr
    assert not (root / "results").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("{problem: tp_mlp}", "sweep_payload.problem: tp_mlp has no payload in its entries"),
        ("{payloads: [3]}", "sweep_payload.payloads: 3 bytes: uniform_a2a: payload must be"),
    ],
)
def test_payloads_that_make_no_case_stop_before_any_job(root: Path, fields: str, message: str) -> None:
    (root / "mine.yaml").write_text(f"sweep_payload: {fields}\n")
    of_mine = ("--profile", "local", "-n", "--configfile", "config/config.yaml", "mine.yaml")
    done = snakemake(root, *of_mine, "--", "sweep_payload")
    assert done.returncode != 0 and f"ValueError: {message}" in done.stdout + done.stderr
    assert snakemake(root, *of_mine, "--", "all").returncode == 0  # which sweeps none


def test_a_folder_with_braces_in_its_path_is_refused_before_the_plan(tmp_path: Path) -> None:
    root = tmp_path / "{x}"
    root.mkdir()
    done = snakemake(copy_to(root), "--profile", "local", "all", "-n")
    assert done.returncode != 0 and "Building DAG" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: {root}: braces in a path")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("heldout_seed: 2", "heldout_sed: 2"), "heldout_sed: .*_seed'"),
        (("\n  uniform_a2a: #", "\n  uniform_a2b: #"), "cases: .*_a2b'.*_a2a'"),
        (("\nshortlist:", "\nprobe: {seconds: 1}\nshortlist:"), r"probe .*line \d+"),
        (("{payload: 64KiB}", "{payload: 64KiB, ranks: 3}"), "world size .*3 and 4"),
        (("{payload: 64KiB}", "{payload: 63B}"), "cases of uniform_a2a, entry 1"),
        (("{payload: 64KiB}", "{payloud: 64KiB}"), "payloud: .*'payload'"),
        (("\n  [tp_mlp, layer", "\n  [tp_nlp, tp_mlp, layer"), "problems: .*'tp_nlp'"),
        (("deployment: local", "deployment: nowhere"), "nowhere.yaml .*not exist"),
        (("backend: torchdist", "backend: torchdust"), "local.yaml: .*torchdust"),
        (("ranks_per_node: 4", "ranks_per_node: 3"), "per_node .*got 3 and 4"),
        (("  # corpus: texts ", "  corpus: texts "), "longrun.*corpus: .*texts"),
    ],
)
def test_a_wrong_file_is_one_message(
    edit: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    edited = 0
    for file in (Path("config/config.yaml"), Path("config/deployments/local.yaml")):
        text = file.read_text()
        edited += text.count(edit[0])
        file.write_text(text.replace(*edit))
    assert edited == 1
    with pytest.raises(ValueError, match=message) as error:
        prepare(yaml.safe_load(Path("config/config.yaml").read_text()), ())
    assert "\n" not in str(error.value)


def test_a_folder_of_plug_ins_that_is_not_there_is_no_mistake_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", "/nowhere")
    with pytest.raises(OSError, match=r"_PLUGINS: .*/nowhere"):
        prepare(yaml.safe_load(Path("config/config.yaml").read_text()), ())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"proposer": "claude"}, "claude: .*_API_KEY"),
        ({"proposer": "command", "command": "no-such-program"}, "command: .*such-program"),
        ({"proposer": "command", "command": "python no/answer.py"}, "command: .*no/answer.py"),
        ({"proposer": "command"}, "command: .*be confined"),
    ],
)
def test_a_search_that_cannot_ask_stops_where_jobs_start_and_never_a_plan(
    overrides: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confined() -> None:
        raise CannotConfine("no process can be confined")

    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setattr(tracing, "check", confined)
    fields = yaml.safe_load(Path("config/config.yaml").read_text()) | overrides
    with pytest.raises(ValueError, match=message):
        prepare(fields, overrides, starts=True)
    assert prepare(fields, overrides, starts=False)


def test_a_selftest_looks_as_far_as_strategies_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies for all ranks are the most that one gives at once."""
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    config["cases"]["grad_ar"] = [{"tensors": {"count": 40, "smallest": "1KiB", "largest": "2MiB"}}]
    pipeline = prepare(config, ())
    source = catalog.library_source("grad_ar")
    calls = [
        call_of(call, case).payload_bytes
        for case in pipeline.cases["grad_ar"]
        for call in trace_source(source, "all_to_all_of_copies", catalog.build(case)).calls
    ]
    assert pipeline.deployment.largest_payload_bytes < max(calls) <= pipeline.largest_payload_bytes


def test_a_search_that_is_only_compared_is_asked_for_its_key_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    fields = yaml.safe_load(Path("config/config.yaml").read_text())
    fields["ablations"]["searches"] = ["offline@0", "claude@0"]
    pipeline = prepare(fields, (), starts=True)
    with pytest.raises(ValueError, match=r"claude@0: .*_API_KEY"):
        assert pipeline.compared
    assert prepare(fields, (), starts=False).compared


def test_another_text_in_the_folder_of_a_corpus_is_another_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    with Path("config/models/nano.yaml").open("a") as file:
        file.write("corpus: texts\n")
    parameters = []
    for text in (b"x" * 6000, b"x" * 6000, b"y" * 6000):
        Path("texts/a.txt").write_bytes(text)
        corpus.read.cache_clear()  # as in a process of its own
        pipeline = prepare(yaml.safe_load(Path("config/config.yaml").read_text()), ())
        parameters.append(pipeline.model_json("nano"))
    assert parameters[0] == parameters[1] != parameters[2]


def test_another_text_of_a_long_run_is_another_long_run_and_no_other_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    file = Path("config/config.yaml")
    file.write_text(file.read_text().replace("  # corpus: texts", "  corpus: texts"))
    long, trained = set(), set()
    for text in (b"x" * 6000, b"y" * 6000):
        Path("texts/a.txt").write_bytes(text)
        corpus.read.cache_clear()  # as in a process of its own
        pipeline = prepare(yaml.safe_load(file.read_text()), ())
        long.add(pipeline.long_model_json("nano"))
        trained.add(pipeline.model_json("nano"))
    assert len(long) == 2 and len(trained) == 1


def test_a_model_that_needs_another_problem_is_left_out_and_said_or_refused_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    whole = prepare(config, ())
    assert sorted(whole.settings.models) == sorted(config["models"])
    assert whole.left_out == ""
    part = prepare(config | {"problems": "tp_mlp"}, ("problems",))
    assert part.settings.models == ("nano",)
    assert "nano-dp (needs grad_ar)" in part.left_out
    named = config | {"problems": "tp_mlp", "models": "nano,nano-dp"}
    with pytest.raises(ValueError, match=r"models: nano-dp.*grad_ar"):
        prepare(named, ("problems", "models"))


@pytest.mark.parametrize("starts", [True, False])
def test_a_model_that_is_only_sized_is_refused_for_training_in_one_line(
    starts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(Path("config/config.yaml").read_text()) | {"models": "nano,llama-7b"}
    with pytest.raises(ValueError) as error:
        prepare(config, ("models",), starts=starts)
    said = str(error.value)
    assert all(part in said for part in ("model llama-7b: ", "models/megatron.py", "llama", "`models`"))
    assert "\n" not in said


def test_problems_that_a_step_has_together_are_chosen_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    one_each = prepare(config | {"models": "nano,nano-dp"}, ("models",))
    assert [one_each.chosen_with(p) for p in ("tp_mlp", "grad_ar")] == [("tp_mlp",), ("grad_ar",)]
    named = config | {"problems": "tp_mlp,grad_ar,pp_send_recv", "models": "nano,nano-dp,nano-pp"}
    pipeline = prepare(named, ("problems", "models"))
    assert pipeline.chosen_with("tp_mlp") == ("tp_mlp",)
    assert set(pipeline.chosen_with("grad_ar")) == {"grad_ar", "pp_send_recv"}
    assert pipeline.models_of(*pipeline.chosen_with("pp_send_recv")) == ("nano-dp", "nano-pp")
    trained = json.loads(pipeline.trained_json(*pipeline.chosen_with("pp_send_recv")))
    assert {case.partition("/")[0] for case in trained} == {"grad_ar", "pp_send_recv"}
    [gradients] = [case for case in trained if case.startswith("grad_ar/n2x2")]
    assert trained[gradients] == {"forward": ["nano-pp m1", "nano-pp m4"]}  # both counts are decided as one


def test_a_run_says_once_which_models_it_leaves_out(root: Path) -> None:
    done = snakemake(root, "--profile", "local", "all", "-n", "--config", "problems=tp_mlp")
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("nano-dp (needs grad_ar)") == 1


def test_a_library_that_is_not_installed_is_named_before_any_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(backend, "REQUIRES", ("torch", "no_such_library"))
    with pytest.raises(ValueError, match=r"no_such_library.*install"):
        prepare(yaml.safe_load(Path("config/config.yaml").read_text()), ())


def fit(root: Path, probes: Path) -> tuple[int, str, str]:
    """Exit code, terminal and log of the command of rule fit."""
    outputs = [f"{name}={probes.parent / name}.parquet" for name in ("theta", "fidelity")]
    settings = '{"fit": {"bootstraps": 2, "ridge": 0.1, "seed": 0}}'
    log = probes.parent / "fit.log"
    arguments = [
        "--settings",
        settings,
        "--inputs",
        f"probes={probes}",
        "--log",
        str(log),
        "--outputs",
        *outputs,
    ]
    done = python(root, "-m", "workflow_scripts.stage", "fit", *arguments)
    return done.returncode, done.stderr, log.read_text()


@pytest.mark.parametrize("kind", ["truncated", "other table", "not there"])
def test_a_table_that_is_not_what_it_should_be_stops_the_command(
    root: Path, kind: str, tmp_path: Path
) -> None:
    probes, earlier = tmp_path / "probes.parquet", tmp_path / "theta.parquet"
    earlier.write_bytes(b"measured before")
    if kind != "not there":
        write(CASES, [CASE], probes)
    if kind == "truncated":
        probes.write_bytes(probes.read_bytes()[:-100])
    code, said, log = fit(root, probes)
    assert code == 1
    assert said == log
    assert said.count("\n") == 1
    assert str(probes) in said
    assert "--profile local" in said
    assert earlier.read_bytes() == b"measured before"
    assert not (tmp_path / "fidelity.parquet").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_a_bug_is_a_traceback_and_not_success(root: Path, tmp_path: Path) -> None:
    script = root / "overlayccl_core" / "stages" / "fit.py"
    before = script.read_text()
    main = "def main(job: RuleJob) -> None:\n"
    assert main in before
    script.write_text(before.replace(main, f"{main}    raise RuntimeError('boom')\n"))
    code, said, _ = fit(root, tmp_path / "probes.parquet")
    script.write_text(before)
    assert code == 1
    assert "BUG" in said and "boom" in said
