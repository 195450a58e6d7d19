"""The manifest is what the public validator calls a Provenance Run Crate, and says of each job what it took."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from overlayccl_core.archiving import crate as manifests
from overlayccl_core.archiving.crate import NAME, crate_of, held
from overlayccl_core.archiving.jobs import JobRecord
from overlayccl_core.archiving.manifest import Manifest
from tests.archiving import validator

FILES = {
    "Snakefile": b"rule all:\n",
    "overlayccl_core/stages/fit.py": b"fit()\n",
    "overlayccl_core/stages/probe.py": b"probe()\n",
    "results/local/probes.parquet": b"PAR1",
    "results/local/theta.parquet": b"PAR1 too",
    "results/local/a name with spaces+100%.json": b"{}",
}
SAID = Manifest(
    tree="local",
    command="snakemake --profile local all",
    config={"deployment": "local"},
    machine="host, gloo #0a1b2c3d",
    commit="0" * 40,
    clean=False,
    measuring=("probe",),
    nodes=7,
    version="0.2",
    snakemake="9.27.1",
    zstandard="1.5.7",
)


def job(rule: str, inputs: tuple[str, ...], output: str, nodes: int) -> JobRecord:
    return JobRecord(
        name=rule,
        rule=rule,
        command=f"python -P -m workflow_scripts.stage {rule} --outputs made={output}",
        code="0123456789abcdef",
        parameters=("0123456789abcdef", {"a": 1}),
        inputs=inputs,
        outputs=(output,),
        started=1_700_000_000.25,
        ended=1_700_000_012.5,
        nodes=nodes,
    )


JOBS = [
    job("probe", (), "results/local/probes.parquet", 7),
    job("fit", ("results/local/probes.parquet", "not/in/the/archive"), "results/local/theta.parquet", 0),
]


def crate() -> bytes:
    return crate_of({name: held(data) for name, data in FILES.items()}, JOBS, SAID)


def entities() -> dict[str, dict[str, Any]]:
    return {one["@id"]: one for one in json.loads(crate())["@graph"]}


def validated(folder: Path, text: bytes, scratch: Path) -> "subprocess.CompletedProcess[str]":
    for name, data in {**FILES, NAME: text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return validator.validated(folder, scratch)


def test_the_public_validator_accepts_it(tmp_path: Path) -> None:
    done = validated(tmp_path / "crate", crate(), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wrong", ["ControlAction", "conformsTo", "HowToStep", "license"])
def test_the_validator_would_find_what_is_wrong(tmp_path: Path, wrong: str) -> None:
    done = validated(tmp_path / "crate", crate().replace(wrong.encode(), b"keywords"), tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr


def test_every_file_has_its_sha256_and_every_job_what_it_took() -> None:
    told = entities()
    assert told["results/local/a%20name%20with%20spaces%2B100%25.json"]["sha256"] == held(b"{}").sha256
    probe, fit = (told[f"#job/{one.outputs[0]}"] for one in JOBS)
    assert probe["startTime"] == "2023-11-14T22:13:20.250+00:00"
    for action, node_seconds in ((probe, "85.750"), (fit, "12.250")):
        usage = {told[one["@id"]]["name"]: told[one["@id"]]["value"] for one in action["resourceUsage"]}
        assert usage == {"seconds": "12.250", "node-seconds": node_seconds}
    read = [one["@id"] for one in fit["object"]]
    assert read[0] == "results/local/probes.parquet" and "not/in/the/archive" not in read
    values = {told[one]["name"]: told[one]["value"] for one in read[1:]}
    assert values["code"] == "0123456789abcdef" and values["parameters"] == '["0123456789abcdef", {"a": 1}]'


def test_it_is_a_function_of_what_is_given() -> None:
    assert crate() == crate()


def test_without_the_library_of_manifests_its_mend_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(ValueError, match=r"needs rocrate, .*archive"):
        manifests._empty()
    monkeypatch.undo()
    assert manifests._empty().metadata
