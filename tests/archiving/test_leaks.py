"""No secret gets into an archive, wherever it was planted; and a message about one does not hold it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from overlayccl_core.archiving.leaks import refuse_leaks
from overlayccl_core.archiving.packing import Link

# Put together here, so that this file holds none.
SECRETS = {
    "Anthropic": "sk-" + "ant-api03-" + "Zx9_" * 8,
    "OpenAI": "sk-" + "proj-" + "Zx91" * 10,
    "AWS": "AKI" + "A" + "Z9X8" * 4,
    "GitHub": "gh" + "p_" + "aB3" * 12,
    "Hugging Face": "hf" + "_" + "aB3" * 11,
    "Slack": "xox" + "b-" + "123456789012-" * 2,
    "private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "password": "https://someone:" + "hunter22@" + "example.org",
}
OWN = {"MY_API_KEY": "an unusual value 31415"}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("where", ["text", "bytes", "column", "list"])
def test_well_known_forms_are_found(tmp_path: Path, kind: str, where: str) -> None:
    refuses(tmp_path, SECRETS[kind], where, kind, {})


@pytest.mark.parametrize("where", ["text", "bytes", "column", "list"])
def test_the_values_of_this_environment_are_found(tmp_path: Path, where: str) -> None:
    refuses(tmp_path, OWN["MY_API_KEY"], where, "MY_API_KEY", OWN)


def test_a_long_value_is_found_and_not_told(tmp_path: Path) -> None:
    """Too long for the name of a file, which is what a value that is no secret often is."""
    value = '{"private": "' + "x9" * 1000 + '"}'
    refuses(tmp_path, value, "text", "GCP_CREDENTIALS", {"GCP_CREDENTIALS": value})
    refuse_leaks({}, {"GCP_CREDENTIALS": value})


def refuses(folder: Path, secret: str, where: str, named: str, environment: dict[str, str]) -> None:
    file = folder / ("planted.parquet" if where in ("column", "list") else "planted.log")
    if where == "column":
        parquet.write_table(pa.table({"said": ["well", f"it is {secret} there"]}), file, compression="zstd")
    elif where == "list":
        parquet.write_table(pa.table({"said": [["well"], [], [secret]]}), file, compression="zstd")
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
        "b": Link("a"),
    }
    refuse_leaks(content, harmless)
