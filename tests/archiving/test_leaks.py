"""No secret gets into an archive, wherever it was planted; and a message about one does not hold it."""

import html
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from overlayccl_core.archiving import make
from overlayccl_core.archiving.leaks import refuse_leaks
from overlayccl_core.archiving.packing import Link
from overlayccl_core.tables import records
from tests.archiving.test_crate import SAID

# Put together here, so that this file holds none.
SECRETS = {
    "Anthropic": "sk-" + "ant-api03-" + "Zx9_" * 8,
    "OpenAI": "sk-" + "proj-" + "Zx9_-aB" * 10,
    "key of AWS": "AKI" + "A" + "Z9X8" * 4,
    "secret key of AWS": "aws_secret_access_key" + " = " + "wJa/7MD+EN" * 4,
    "Google": "AIz" + "a" + "Sy9-_" * 7,
    "GitLab": "glpa" + "t-" + "a1B2_" * 5,
    "bearer": "Authorization: " + "Bear" + "er abcdefghij0123456789",
    "signed": "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxIiwibiI6IjIifQ.abcdefghij",
    "GitHub": "gh" + "p_" + "aB3" * 12,
    "Hugging Face": "hf" + "_" + "aB3" * 11,
    "Slack": "xox" + "b-" + "123456789012-" * 2,
    "private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "PGP private key": "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----",
    "password": "https://someone:" + "hunter22@" + "example.org",
}
OWN = {"MY_API_KEY": "an unusual value 31415"}
COLUMNS: dict[str, Callable[[str], pa.Array]] = {
    "column": lambda secret: pa.array(["well", f"it is {secret} there", None]),
    "list": lambda secret: pa.array([["well"], [], [secret]]),
    "bytes of a column": lambda secret: pa.array([b"well", secret.encode()]),
    "dictionary": lambda secret: pa.array(["well", secret, "well"]).dictionary_encode(),
    "struct": lambda secret: pa.array([{"said": {"deep": [secret]}}, None]),
    "map": lambda secret: pa.array([[("key", secret)]], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_well_known_forms_are_found(tmp_path: Path, kind: str) -> None:
    refuses(tmp_path, SECRETS[kind], "text", kind.removeprefix("PGP "), {})


@pytest.mark.parametrize("where", ["text", "bytes", *COLUMNS, "metadata"])
def test_the_values_of_this_environment_are_found_wherever_they_are(tmp_path: Path, where: str) -> None:
    refuses(tmp_path, OWN["MY_API_KEY"], where, "MY_API_KEY", OWN)


def test_a_long_value_is_found_and_not_told(tmp_path: Path) -> None:
    """Too long for the name of a file, which is what a value that is no secret often is."""
    value = '{"private": "' + "x9" * 1000 + '"}'
    refuses(tmp_path, value, "text", "GCP_CREDENTIALS", {"GCP_CREDENTIALS": value})
    refuse_leaks({}, {"GCP_CREDENTIALS": value})


@pytest.mark.parametrize(
    "name",
    ["my_api_key", "Hub_Token", "GPG_PASSPHRASE", "DB_PASS", "AZURE_PAT", "NPM_AUTH", "GCP_CREDENTIALS"],
)
def test_variables_that_hold_secrets_are_known_by_their_names(tmp_path: Path, name: str) -> None:
    refuses(tmp_path, OWN["MY_API_KEY"], "text", name, {name: OWN["MY_API_KEY"] + "\n"})


@pytest.mark.parametrize("value", ['{"private": "p\u00e4ssw\u00f6rd & more"}', "line one\nline 'two'"])
def test_a_value_is_found_as_it_stands_in_other_texts(value: str) -> None:
    """A record of Snakemake's has a parameter's repr in JSON, and the parameter is JSON."""
    parameter = repr(json.dumps({"command": value}))
    for text in (json.dumps([value]), json.dumps([parameter]), html.escape(value)):
        with pytest.raises(ValueError, match="MY_KEY"):
            refuse_leaks({"said": text.encode()}, {"MY_KEY": value})


def test_a_files_name_is_looked_at_and_not_told() -> None:
    secret = SECRETS["GitHub"]
    with pytest.raises(ValueError, match=r"name of a file .*GitHub") as refused:
        refuse_leaks({f"results/{secret}.log": b""}, {})
    assert secret not in str(refused.value)


def test_nothing_is_packed_that_says_a_secret_of_the_command_line(tmp_path: Path) -> None:
    tree, target = tmp_path / "results" / "local", tmp_path / "local.tar.zst"
    for name in ("Snakefile", "overlayccl_core/stages/fit.py", "results/local/theta.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    parquet.write_table(pa.table({"value": [1.0]}), tree / "theta.parquet")
    record = {"rule": "fit", "input": [], "log": [], "params": [], "starttime": 1.0, "endtime": 2.0}
    record["shellcmd"] = "python -P -m workflow_scripts.stage fit"
    place = tmp_path / records.record_path(Path("results/local/theta.parquet"))
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(record))
    about = SAID.changed(config={"command": f"python answer.py --key {SECRETS['Anthropic']}"})
    with pytest.raises(ValueError, match=r"archive.json .*Anthropic"):
        make.make(Path("results/local"), target, about, tmp_path)
    assert not target.exists()
    make.make(Path("results/local"), target, SAID, tmp_path)
    assert target.exists()


def refuses(folder: Path, secret: str, where: str, named: str, environment: dict[str, str]) -> None:
    file = folder / ("planted.parquet" if where in (*COLUMNS, "metadata") else "planted.log")
    if where in COLUMNS:
        parquet.write_table(pa.table({"said": COLUMNS[where](secret)}), file, compression="zstd")
    elif where == "metadata":
        parquet.write_table(pa.table({"said": ["well"]}).replace_schema_metadata({"note": secret}), file)
    else:
        file.write_text(f"first\nkey={secret}\n")
    content = {"innocent": b"nothing", "results/x/planted": file.read_bytes() if where == "bytes" else file}
    with pytest.raises(ValueError, match=named) as refused:
        refuse_leaks(content, environment)
    assert "results/x/planted" in str(refused.value)
    assert secret not in str(refused.value)


def test_what_is_harmless_passes(tmp_path: Path) -> None:
    harmless = {
        "SECRET_FOLDER": str(tmp_path),  # a path that is there
        "SHORT_KEY": "abc",
        "EDITOR": "an editor's name",
    }
    content = {
        "a": f"{tmp_path} abc an editor's name sha256 {'0f' * 32} sk-1 AKIAshort".encode(),
        "c": f"task-{'0f' * 32} disk-{'0f' * 32} Bearer token_of_somebody_else https://a.b/c:d@e".encode(),
        "b": Link("a"),
    }
    refuse_leaks(content, harmless)
