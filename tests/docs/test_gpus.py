"""docs/gpus.md: it says first that nothing ran on a GPU; what it links to, types and names is there."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml

from overlayccl_core.backends.torchdist import node
from overlayccl_core.cli.main import COMMANDS
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.profile import load as load_profile

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/gpus.md"
TEXT = FILE.read_text()
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)  # language, text


def test_it_says_first_what_ran_on_a_gpu() -> None:
    title, _, head = TEXT.partition("\n\n")
    assert title.startswith("# ") and "The pipeline did not.**" in head.partition("\n")[0]
    rows = [row for row in re.findall(r"^\|.*\|$", TEXT, flags=re.MULTILINE) if row.count("|") == 6]
    assert len(rows) > 8 and {row.split("|")[5].strip() for row in rows[2:]} == {
        "no",
        "one rank",
        "four ranks",
    }


def test_its_links_lead_to_files_and_headings() -> None:
    for path, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", TEXT):
        text = (FILE.parent / path).read_text()
        headings = {
            re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-")
            for one in re.findall("^#+ (.*)", text, re.M)
        }
        assert not heading or heading in headings


def test_its_commands_name_profiles_deployments_and_commands_that_are_there() -> None:
    typed = [line for language, text in FENCED if not language for line in text.splitlines()]
    lines = [shlex.split(line, comments=True) for line in typed]
    copied = {line[-1] for line in lines if line[0] == "cp"}
    assert copied == {"profiles/mine", "config/deployments/mine.yaml"}
    for line in lines:
        for option, known in (("--profile", "profiles/{}"), ("--deployment", "config/deployments/{}.yaml")):
            if option in line and (name := line[line.index(option) + 1]) != "mine":
                assert (ROOT / known.format(name)).exists()
        for told in (word for word in line if word.startswith("deployment=")):
            assert (ROOT / f"config/deployments/{told.partition('=')[2]}.yaml").exists()
        if line[0] == "overlayccl":
            assert line[1] in {command.__name__.rpartition(".")[2] for command in COMMANDS}


def test_what_it_quotes_of_the_doctor_is_what_the_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    quoted = re.findall(
        r"^\| (\w[^|]*) \|", TEXT.partition("| it says | do |")[2].partition("\n\n")[0], re.MULTILINE
    )
    states = [node.Torch(), node.Torch(built=True), node.Torch(built=True, gpus=8)]
    said = []
    for there in [*states, node.Torch(built=True, gpus=4, usable=True)]:
        monkeypatch.setattr(node, "of_torch", lambda there=there: there)
        said.append(node.lacks_gpus(load(ROOT / "config/deployments/nccl-8.yaml")))
    assert len(quoted) == len(said) and all(map(str.startswith, said, quoted))


def test_the_deployment_of_ones_own_can_be_read(tmp_path: Path) -> None:
    (own,) = (text for language, text in FENCED if language == "yaml")
    for name, text in (("mine", own), ("nccl-8", (ROOT / "config/deployments/nccl-8.yaml").read_text())):
        (tmp_path / f"{name}.yaml").write_text(text)
    mine = load(tmp_path / "mine.yaml")
    assert (mine.ranks, mine.ranks_per_node, mine.library) == (4, 4, "nccl")


def test_the_profile_has_a_gpu_for_each_rank_of_a_node() -> None:
    profile = load_profile("slurm-gpu", ROOT)
    deployment = load(ROOT / f"config/deployments/{profile.overrides['deployment']}.yaml")
    assert profile.gres == f"gpu:{deployment.ranks_per_node}" and f"`gres: {profile.gres}`" in TEXT
    assert deployment.nodes == 2
    (environment,) = re.findall(r"`environment: (\{.*?\})`", TEXT)
    assert deployment.changed(environment=yaml.safe_load(environment)).environment


def test_the_module_in_a_script_is_connected_as_modules_are() -> None:
    (script,) = (text for language, text in FENCED if language == "python")
    api = ast.parse((ROOT / "overlayccl_core/emit/runtime/api.py").read_text())
    defined = {one.name: one for one in api.body if isinstance(one, ast.FunctionDef)}
    called = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    for call in called:
        owner, _, name = ast.unparse(call.func).rpartition(".")
        if owner == "tp_mlp":
            assert {word.arg for word in call.keywords} <= {one.arg for one in defined[name].args.args}
