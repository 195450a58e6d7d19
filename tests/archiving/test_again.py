"""Nothing of an archive is run: no program that its searches name, no plug-in that lies in it."""

import json
from pathlib import Path

import pytest

from overlayccl_core import loader
from overlayccl_core.archiving.again import _python
from overlayccl_core.archiving.searched import without_asking


def told(search: dict[str, object]) -> list[str]:
    search = {"name": "mine", "seconds": 9.0, "repairs": 1} | search
    words = ["python", "-m", "workflow_scripts.search", "--search", json.dumps(search)]
    return [*words, "--answers", "results/local/answers"]


def test_a_search_that_asked_is_told_its_recorded_answers_and_no_program_or_vendor(tmp_path: Path) -> None:
    for asked in ({"proposer": "command", "command": "rm -rf ."}, {"proposer": "claude", "claude": {}}):
        words = without_asking(told(asked), tmp_path)
        search = json.loads(words[4])
        assert search.pop("seconds") > 1e6  # another processor may take longer
        assert search == {
            "name": "mine",
            "repairs": 1,
            "proposer": "replay",
            "answers": "results/local/answers",
        }
        assert words[:4] + words[5:] == told(asked)[:4] + told(asked)[5:]


def test_answers_that_are_not_in_the_archive_are_not_looked_for(tmp_path: Path) -> None:
    for place in ("/etc", "../elsewhere"):
        with pytest.raises(ValueError, match="not in the archive"):
            without_asking(told({"proposer": "replay", "answers": place}), tmp_path)
    words = without_asking(told({"proposer": "replay", "answers": "results/local"}), tmp_path)
    assert json.loads(words[4])["answers"] == "results/local"


def test_a_search_that_asks_nobody_and_what_is_no_search_stay() -> None:
    search = json.loads(without_asking(told({"proposer": "offline"}), Path())[4])
    assert search == {"name": "mine", "repairs": 1, "proposer": "offline"} | {"seconds": search["seconds"]}
    assert without_asking(["python", "-m", "workflow_scripts.fit"], Path()) == [
        "python",
        "-m",
        "workflow_scripts.fit",
    ]


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
