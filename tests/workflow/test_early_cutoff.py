"""What the literal command runs after a change: tables that come out equal start nothing, least of all ranks.

Real runs of `snakemake --profile local all` on one tree, one edit after the other, with made-up times instead of
ranks (made_up.py): all commands are the real ones, and what ran is what their processes noted.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from overlayccl_core.rule import ALL, rules
from tests.workflow import made_up
from tests.workflow.graph import READS, WHERE_ASKED, behind
from tests.workflow.repository import copy_to, snakemake
from tests.workflow.small import SMALL, TINY

pytestmark = pytest.mark.timeout(1800)  # eight runs: two minutes, if alone

PROBLEMS = ("grad_ar", "pp_send_recv")  # at the model's sites
CONFIG = {
    "problems": list(PROBLEMS),
    "models": ["pipe"],
    "cases": {},
    "shortlist": {"families": 2, "random": 1, "overlapping": 1, "at_least": 5, "seed": 0},
    "bench": {"seconds": 3, "minimum_rounds": 2, "maximum_rounds": 24},
}
PRICE = "overlayccl_core/costmodel/price.py"
COLUMN = "            terms[column.term] += amount * values[column]\n"
PIPE = TINY | {"parallelism": "pipeline", "schedule": "gpipe", "layers": 2}
FEATURES = "overlayccl_core/costmodel/features.py"


def jobs(*names: str) -> set[str]:
    """All jobs of these rules."""
    subjects = {(): ("",), ("model",): (" pipe",)}
    of_problems = tuple(f" {problem}" for problem in PROBLEMS)
    return {f"{name}{one}" for name in names for one in subjects.get(rules()[name].of, of_problems)}


PRICED = jobs("fit", "price", "search", "shortlist")
COMPARED = jobs(*behind("bench", equal=("finalists", "choose")) - {"bench"})
MEASURING = {name for name, rule in rules(ALL).items() if rule.measures}
MEASURED = jobs(*MEASURING - WHERE_ASKED)
OF_SHORTLISTS = MEASURING & {name for name, of in READS.items() if "shortlist" in of}
BEHIND_BENCH = jobs(*behind("finalists"))
EVERYTHING = jobs(*READS.keys() - WHERE_ASKED)


@dataclass(frozen=True)
class Ran:
    """One run of the command: what it started, in order, and what it said."""

    started: tuple[str, ...]
    said: str


class Tree:
    """A copy of the repository in which runs are made."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace what stands there once."""
        file = self.root / path
        assert file.read_text().count(old) == 1, f"{path} has not one {old!r}"
        file.write_text(file.read_text().replace(old, new))

    def run(self, *more: str, fails: bool = False) -> Ran:
        """The literal command."""
        noted = self.root / "started.txt"
        noted.write_text("")
        done = snakemake(self.root, "--profile", "local", "all", *more)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        started = tuple(line.strip() for line in noted.read_text().splitlines())
        assert len(set(started)) == len(started), started
        return Ran(started, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The runs by the change before them; each builds on the tree that the one above it left."""
    tree = Tree(copy_to(tmp_path_factory.mktemp("repository")))
    config = tree.root / "config/config.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | SMALL | CONFIG))
    (tree.root / "config/models/pipe.yaml").write_text(yaml.safe_dump(PIPE))
    tree.edit("config/searches/offline.yaml", "rounds: 100", "rounds: 1")
    tree.edit("config/searches/offline.yaml", "elites_a_round: 6", "elites_a_round: 4")
    shutil.copy(tree.root / "tests/workflow/made_up.py", tree.root / "sitecustomize.py")
    ran = {"a fresh tree": tree.run()}
    text = (tree.root / FEATURES).read_text()
    (tree.root / FEATURES).write_text(f"{text}\n_TOUCHED = 1\n")
    ran["a feature that no price has"] = tree.run()
    tree.edit("config/config.yaml", "  maximum_rounds: 24\n", "  maximum_rounds: 28\n")
    ran["rounds of the bench"] = tree.run()
    tree.edit("overlayccl_core/stages/selftest.py", "def main(", "ADDED = 1\n\n\ndef main(")
    tree.edit("config/config.yaml", "  seconds: 12\n", "  seconds: 24\n")
    tree.edit(PRICE, "    us = sum(terms.values())\n", "    us = 1.1 * sum(terms.values())\n")
    ran["the selftest, the probes, and all prices alike"] = tree.run()
    cheap = 'cheap = 0.1 if column.name.startswith("reduce_scatter") else 1'
    tree.edit(PRICE, COLUMN, f"            {cheap}\n{COLUMN.replace('amount', 'cheap * amount')}")
    ran["one kind cheaper"] = tree.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MALLOC_ARENA_MAX", "1")
        ran["another environment"] = tree.run()
        tree.edit("config/config.yaml", "  maximum_rounds: 28\n", "  maximum_rounds: 30\n")
        ran["another environment, and a change"] = tree.run(fails=True)
        tree.edit("config/config.yaml", "  maximum_rounds: 30\n", "  maximum_rounds: 28\n")
        ran["measured again"] = tree.run("--config", "machine=here")
    return ran


def test_every_rule_that_measures_has_made_up_times() -> None:
    assert made_up.MADE_UP.keys() == MEASURING


def test_a_fresh_tree_is_planned_whole(runs: dict[str, Ran]) -> None:
    assert set(runs["a fresh tree"].started) == EVERYTHING


def test_where_prices_come_out_equal_nothing_behind_the_shortlists_runs(runs: dict[str, Ran]) -> None:
    """No ranks: finalists come out equal, and so the model, two tables behind the shortlists of its Problems."""
    ran = runs["a feature that no price has"]
    have_its_code = jobs("finalists", "step_fidelity") | {"price_ablation", "report"}
    assert set(ran.started) == PRICED | have_its_code
    lines = [line.partition("] ")[2] for line in ran.said.splitlines() if ": begins" in line]
    assert len(lines) == len(ran.started)
    made = ", ".join(
        f"results/local/problems/grad_ar/{t}.parquet" for t in ("prices", "search/offline/candidates")
    )
    causes = dict(line.split(": begins again: ") for line in lines)
    assert causes["fit"].endswith(f": {FEATURES}") and causes["shortlist grad_ar"].endswith(f": {made}")


def test_prices_and_probes_that_keep_the_shortlists_time_no_candidate(runs: dict[str, Ran]) -> None:
    """The selftest, which is edited too, finds the same capabilities: nothing is timed for that either."""
    started = set(runs["the selftest, the probes, and all prices alike"].started)
    assert started == {"selftest", "probe"} | PRICED | COMPARED | jobs("step_fidelity")


def test_an_edit_of_the_cost_model_starts_ranks_only_for_problems_whose_shortlists_it_changes(
    runs: dict[str, Ran],
) -> None:
    """Of pp_send_recv some prices differ, the shortlist does not; of grad_ar the bench leaves the finalists."""
    started = set(runs["one kind cheaper"].started)
    of_ranks = {f"{name} grad_ar" for name in OF_SHORTLISTS}
    assert started == PRICED | of_ranks | {"price_ablation"} | BEHIND_BENCH - jobs("train", "confirm")


def test_a_new_bench_that_leaves_the_finalists_trains_nothing(runs: dict[str, Ran]) -> None:
    started = set(runs["rounds of the bench"].started)
    assert started == jobs("bench") | COMPARED


def test_in_another_environment_what_was_measured_stays_and_nothing_is_mixed_with_it(
    runs: dict[str, Ran],
) -> None:
    stays = runs["another environment"]
    assert stays.started == () and "Nothing to be done" in stays.said
    refused = runs["another environment, and a change"]
    assert set(refused.started) <= jobs("bench")
    for said in (stays.said, refused.said.partition("ERROR: ")[2]):
        then, now = re.findall(r"cpu .* #[0-9a-f]{8}", said)[0].split(". This is: ")
        assert "MALLOC_ARENA_MAX" not in then and "MALLOC_ARENA_MAX=1" in now
        assert "--config machine=here" in said


def test_where_it_is_asked_for_all_that_is_measured_is_measured_again_and_the_run_says_why(
    runs: dict[str, Ran],
) -> None:
    """Capabilities, shortlists and finalists come out equal: each rule that measures runs for its own parameter."""
    again = runs["measured again"]
    assert MEASURED <= set(again.started) <= MEASURED | PRICED | BEHIND_BENCH | {"price_ablation"}
    for job in MEASURED:
        (line,) = (line for line in again.said.splitlines() if f"{job}: begins" in line)
        assert "begins again: " in line and "told something else: " in line, line
        assert "MALLOC_ARENA_MAX=1" in line
