"""docs/add-a-rule.md, followed literally: the rule is in the plan of `all`, and its table is what the page says."""

import json
import re
from pathlib import Path

from overlayccl_core.rule import rules
from tests.workflow.repository import ROOT, copy_to, python

BLOCK = re.compile(r"^```(?:python|snakemake) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW = ("tables", "stages", "dag")
PLAN = (
    "from workflow_scripts import dag;"
    "dag.answered(lambda: sorted({j.rule.name for j in dag.planned({}, 'all').dag.jobs if j.shellcmd}))"
)
COUNT = """
import polars as pl
from overlayccl_core.stages.proven import run
from overlayccl_core.tables.page import TABLES
ways = {"case": ["tp_mlp/n4", "tp_mlp/n4", "grad_ar/n4"], "equivalence": ["pass", None, "pass"]}
assert run(pl.DataFrame(ways)) == [{"problem": "tp_mlp", "ways": 1}, {"problem": "grad_ar", "ways": 1}]
assert "proven" in {table.name for table in TABLES}
"""


def after(file: Path, old: str, new: str) -> None:
    """Put a text behind another, which stands there once."""
    text = file.read_text()
    assert text.count(old) == 1, (file, old)
    file.write_text(text.replace(old, old + new))


def test_the_page_followed_literally_adds_a_rule(tmp_path: Path) -> None:
    root = copy_to(tmp_path)
    blocks = dict(BLOCK.findall((ROOT / "docs/add-a-rule.md").read_text()))
    for part in NEW:
        path = f"overlayccl_core/{part}/proven.py"
        (root / path).write_text(blocks.pop(path))
    page = root / "overlayccl_core/tables/page.py"
    after(
        page,
        "from overlayccl_core.tables.known_ways import KNOWN_WAYS\n",
        "from overlayccl_core.tables.proven import PROVEN\n",
    )
    after(page, "    *(CASES, KNOWN_WAYS, ", "PROVEN, ")
    after(root / "Snakefile", '        of_jobs("selftest", "probe", "fit"),\n', blocks.pop("Snakefile"))
    ((smk, rule),) = blocks.items()
    (root / smk).write_text(f"{(root / smk).read_text()}\n\n{rule}")
    done = python(root, "-c", PLAN)
    assert done.returncode == 0, done.stderr
    assert "proven" in json.loads(done.stdout)
    done = python(root, "-c", COUNT)
    assert done.returncode == 0, done.stderr


def test_a_chapter_names_every_rule() -> None:
    _, chapter = (ROOT / "ARCHITECTURE.md").read_text().split("\n## The DAG\n")
    assert [name for name in rules() if f"`{name}`" not in chapter.partition("\n## ")[0]] == []
