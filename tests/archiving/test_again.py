"""Nothing of an archive is run: no program that its searches name, no plug-in that lies in it."""

import json
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.archiving.again import _python, proposer_of
from overlayccl_core.search.proposer import asks


def test_who_would_propose_is_what_the_command_itself_says() -> None:
    words = ["python", "-m", "workflow_scripts.search", "--search", json.dumps({"proposer": "command"})]
    assert asks(proposer_of(words))
    assert proposer_of(["python", "-m", "workflow_scripts.fit"]) == ""


def test_of_an_archives_plug_ins_only_strategies_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(loader.VARIABLE, raising=False)
    folder = tmp_path / "overlayccl-local"
    for part in ("backends/evil", "problems", "strategies"):
        (folder / "plugins" / part).mkdir(parents=True)
    (folder / "plugins/backends/evil/backend.py").write_text("raise SystemExit('it ran')\n")
    (folder / "plugins/strategies/mine.py").write_text('"""Mine."""\n')
    told = "from pathlib import Path; from overlayccl_core import loader; loader.use_project(Path()); "
    told += "print(loader.names('backends'), loader.names('strategies'))"
    done = _python(folder, ["-c", told], "")
    assert done.returncode == 0, done.stderr
    assert "evil" not in done.stdout and "'mine'" in done.stdout
