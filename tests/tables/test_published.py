"""Files in deploy/: what a script may be using is never dropped without a word, and nothing of it is run."""

import hashlib
from pathlib import Path

from overlayccl_core.tables.published import (
    Earlier,
    cases_of,
    earlier,
    modules,
    not_as_confirmed,
    publish,
    recorded_with,
)


def module(*cases: str, more: str = "") -> str:
    entries = "".join(f'    "{case}": Entry(\n        ranks=2,\n    ),\n' for case in cases)
    return f'"""Proven calls."""\nraise SystemExit("it was run")\n{more}ENTRIES = {{\n{entries}}}\n'


def test_the_cases_of_a_module_are_read_and_nothing_of_it_is_run() -> None:
    assert cases_of(module("grad_ar/n2", "grad_ar/n4")) == ("grad_ar/n2", "grad_ar/n4")
    assert cases_of("import torch\n") == cases_of("no module at all") == cases_of("") == ()


def test_a_file_with_a_case_that_the_new_one_lacks_is_kept_beside_it(tmp_path: Path) -> None:
    file, told = tmp_path / "deploy/grad_ar.py", list[str]()
    publish(file, module("grad_ar/n2", "grad_ar/n4"), told.append)
    assert told == []
    publish(file, module("grad_ar/n4", "grad_ar/n8"), told.append)
    kept = tmp_path / "deploy/earlier/grad_ar.py"
    assert len(told) == 1 and told[0].startswith(f"{kept}: ") and "lacks" in told[0]
    assert kept.read_text() == module("grad_ar/n2", "grad_ar/n4")
    assert cases_of(file.read_text()) == ("grad_ar/n4", "grad_ar/n8")
    assert list(earlier(tmp_path)) == [Earlier(path=kept, cases=("grad_ar/n2",))]
    publish(file, module("grad_ar/n2", "grad_ar/n4", "grad_ar/n8"), told.append)
    assert list(earlier(tmp_path)) == []  # all its Cases are deployed again
    assert len(told) == 2 and told[1].startswith(f"{kept}: removed: ") and told[1].endswith(str(file))


def test_of_earlier_files_those_stay_that_have_a_case_of_their_own(tmp_path: Path) -> None:
    """However often a Case comes and goes, the last file that had it is kept, and no other for its sake."""
    file, folder = tmp_path / "deploy/grad_ar.py", tmp_path / "deploy/earlier"
    publish(tmp_path / "deploy/tp_mlp.py", module("b/1"), print)
    publish(tmp_path / "deploy/tp_mlp.py", None, print)
    for number, case in enumerate(
        ("a/1", "a/1", "a/2", "a/3", "a/2", "a/4", *("a/1", "a/2") * 5, "a/3", "a/5")
    ):
        publish(file, module(case, more=f"N = {number}\n"), print)
    kept = sorted(cases_of(path.read_text()) for path in folder.iterdir())
    assert kept == [("a/1",), ("a/2",), ("a/3",), ("a/4",), ("b/1",)]
    last = next(text for path in folder.iterdir() if "a/1" in (text := path.read_text()))
    assert "N = 14\n" in last


def test_an_earlier_file_stays_for_the_sake_of_one_of_its_cases(tmp_path: Path) -> None:
    file = tmp_path / "deploy/grad_ar.py"
    for cases in (("a/1", "a/2"), ("a/2",), ("a/3",)):
        publish(file, module(*cases), print)
    assert [one.cases for one in earlier(tmp_path)] == [("a/1", "a/2"), ("a/2",)]


def test_where_nothing_is_deployed_there_is_no_file_and_the_one_before_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "deploy/grad_ar.py"
    publish(file, None, print)
    assert not file.exists()
    publish(file, module("grad_ar/n2"), print)
    publish(file, None, print)
    assert (tmp_path / "deploy/earlier/grad_ar.py").exists() and not file.exists()
    assert [one.cases for one in earlier(tmp_path)] == [("grad_ar/n2",)]


def test_a_module_that_is_gone_or_another_or_too_many_is_not_what_was_confirmed(tmp_path: Path) -> None:
    folder = tmp_path / "deploy"
    folder.mkdir()
    digest = f'"{hashlib.sha256(module("a/1").encode()).hexdigest()}"'
    told = {"here": digest, "gone": digest, "edited": digest, "none": "null", "too_many": "null"}
    for name, sha256 in told.items():
        (folder / f"{name}.json").write_text(f'{{"module": {sha256}}}')
    for name in ("here", "edited", "too_many"):
        (folder / f"{name}.py").write_text(module("a/1"))
    with (folder / "edited.py").open("a") as file:
        file.write("# faster\n")
    (folder / "damaged.json").write_text("made by somebody")
    found = sorted(path.name for path in not_as_confirmed(folder.iterdir()))
    assert found == ["edited.py", "gone.py", "too_many.py"]


def test_a_module_has_the_record_of_the_file_beside_it(tmp_path: Path) -> None:
    records = [tmp_path / "deploy" / f"{name}.json" for name in ("tp_mlp", "grad_ar", "gone")]
    records[0].parent.mkdir()
    for path, told in zip(records, ('{"module": "0f"}', '{"module": null}'), strict=False):
        path.write_text(told)
    table = tmp_path / "deployed.parquet"
    table.write_bytes(b"PAR1")
    assert list(modules([table, *records])) == [tmp_path / "deploy/tp_mlp.py"]
    assert recorded_with(tmp_path / "deploy/tp_mlp.py") == records[0]
    assert recorded_with(tmp_path / "problems/tp_mlp/chosen.py") == tmp_path / "problems/tp_mlp/chosen.py"
    assert recorded_with(table) == table
