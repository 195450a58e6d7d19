"""The rule draws the page from a run's folder, and Snakemake's own report carries it."""

import shutil
from pathlib import Path

from overlayccl_core.digest import ROOT, closure
from overlayccl_core.tables.records import place_of
from tests.workflow.repository import copy_to, snakemake

PARTS = ("probes", "theta", "fidelity")


def test_the_rule_draws_the_page_and_snakemakes_report_carries_it(whole: Path, tmp_path: Path) -> None:
    root = copy_to(tmp_path)
    tree = root / "results" / "local"
    tree.mkdir(parents=True)
    for part in PARTS:
        for suffix in ("parquet", "sidecar.json"):
            shutil.copy(whole / f"{part}.{suffix}", tree)
        record = root / place_of(Path("results/local") / f"{part}.parquet")
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("{}")
    asked = ("--profile", "local", "results/local/report.html", "--allowed-rules", "report")
    (root / "rules" / "report.smk").write_text(_inputs_of(root, PARTS))
    done = snakemake(root, *asked)
    assert done.returncode == 0, done.stderr
    page = (tree / "report.html").read_text()
    assert "predicted against" in page and "No model was trained" in page
    done = snakemake(root, *asked, "--report", "all.html")
    assert done.returncode == 0, done.stderr
    assert "the page that" in (root / "all.html").read_text()


def test_the_pages_template_and_style_are_code_of_the_rule() -> None:
    names = {path.relative_to(ROOT).name for path in closure("report")}
    assert {"page.html.jinja", "style.css", "page.py"} <= names


def _inputs_of(root: Path, tables: tuple[str, ...]) -> str:
    """The rule with these tables of the deployment as its only inputs."""
    text = (root / "rules" / "report.smk").read_text()
    head, rest = text.split("    input:\n")
    tail = rest[rest.index("    output:") :]
    inputs = "".join(f'        {table}="results/{{deployment}}/{table}.parquet",\n' for table in tables)
    return f"{head}    input:\n{inputs}{tail}"
