"""A tree is all that is there, or only the files that a rule declares: then what others left is not seen."""

import re
import shutil
from pathlib import Path

from overlayccl_core.report.page import page
from overlayccl_core.report.tree import Tree

LEFT = "grad_ar"  # a Problem that another run left


def test_what_is_not_declared_is_not_seen(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "local"))
    shutil.copytree(folder / "problems/tp_mlp", folder / "problems" / LEFT)
    (folder / "logs").mkdir(exist_ok=True)
    for job in (
        "fit",
        "bench-tp_mlp",
        f"bench-{LEFT}",
        "search-tp_mlp-offline",
        "search-tp_mlp-other",
        "train-gone",
    ):
        (folder / "logs" / f"{job}.tsv").write_text("s\n1.5\n")
    everything = Tree(path=folder)
    assert LEFT in everything.problems
    files = frozenset(path for path in folder.rglob("*") if LEFT not in path.as_posix())
    some = Tree(path=folder, files=files)
    assert set(some.problems) == set(everything.problems) - {LEFT}
    assert some.models == everything.models
    jobs, of_all = ({phase.name for phase in one.phases} for one in (some, everything))
    assert {"fit", "bench-tp_mlp", "search-tp_mlp-offline"} <= jobs == of_all - {f"bench-{LEFT}"}
    assert not {"search-tp_mlp-other", "train-gone"} & of_all  # of what has no table here
    assert some.choice is not None and everything.choice is not None
    assert 2 * some.choice.height == everything.choice.height


def test_the_pages_own_time_is_not_on_it(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "local"))
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "fit.tsv").write_text("s\n1.5\n")
    before = page((Tree(path=folder),))
    (folder / "logs" / "report.tsv").write_text("s\n12.25\n")
    assert page((Tree(path=folder),)) == before


def test_every_section_links_the_tables_that_its_figures_are_of(whole: Path, tmp_path: Path) -> None:
    html = page((Tree(path=whole),))
    sections = re.findall(r'<section id="local-(\w+)">(.*?)</section>', html, flags=re.S)
    linked = {name: set(re.findall(r'<a href="([^"#]+\.parquet)">', text)) for name, text in sections}
    assert linked["worth"] >= {"splits.parquet", "deployed.parquet"}
    assert linked["model"] >= {"theta.parquet", "fidelity.parquet", "problems/tp_mlp/fidelity.parquet"}
    assert linked["deployed"] >= {"problems/tp_mlp/choice.parquet"}
    assert all((whole / file).is_file() for files in linked.values() for file in files)
    assert "written by the rule <code>choose</code>" in dict(sections)["deployed"]
    beside = page((Tree(path=whole),), tmp_path)
    (there,) = set(re.findall(r'<a href="([^"#]+/theta\.parquet)">', beside))
    assert (tmp_path / there).resolve() == (whole / "theta.parquet").resolve()


def test_what_was_made_of_tables_once_is_of_them_whoever_asks_again(whole: Path) -> None:
    tree = Tree(path=whole)
    with tree.reading() as first:
        made = tree.worths
    with tree.reading() as again:
        assert tree.worths is made
    assert first == again
    assert {source.table for source in first} == {"splits", "deployed"}
