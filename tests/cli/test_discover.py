"""`overlayccl discover`: what is found on hosts of this machine, and what is said of planted times."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from overlayccl_core import catalog
from overlayccl_core.cli import discover
from overlayccl_core.configuration.cases import cases_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.settings import read
from overlayccl_core.deployments.tiers import Rounds, reach
from overlayccl_core.gates import equivalence
from overlayccl_core.rewrites.recipe import Recipe, replay
from overlayccl_core.timing.pairs import PairTimes
from tests.cli.repository import REPOSITORY, Call, too_wide
from tests.hosts import hosts_or_skip

NEAR_US, FAR_US = 4000.0, 35_000.0
PAYLOAD = 2**22  # 33,554 us at 1 Gbit/s


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with this one's configuration alone."""
    shutil.copytree(REPOSITORY / "config", tmp_path / "config")
    return tmp_path


def plant(
    monkeypatch: pytest.MonkeyPatch, large_us: Rounds, *, payload: int = PAYLOAD, alone: bool = True
) -> None:
    """These times in the place of measured ones."""
    times = PairTimes(small_us=large_us / 100, large_us=large_us, payload_bytes=payload, alone=alone)
    monkeypatch.setattr(discover, "time_pairs", lambda *_, **__: times)


def two_hosts(order: tuple[int, ...] = (0, 1, 2, 3), far_us: float = FAR_US) -> Rounds:
    """Two hosts of two ranks, in an order."""
    us = np.array((NEAR_US, far_us))[reach(4, (2, 4))][np.ix_(order, order)]
    np.fill_diagonal(us, np.nan)
    return np.stack([us, us * 1.1])


def declared(root: Path, name: str, tiers: str) -> str:
    """A deployment on two hosts with other tiers."""
    (root / f"config/deployments/{name}.yaml").write_text(f"inherits: two-tier\ntiers: {tiers}\n")
    return name


def test_what_is_declared_as_it_is_found_gets_exit_code_0(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, two_hosts())
    done = call("discover", "--deployment", "two-tier")
    assert done.code == 0 and not done.err and not too_wide(done.out)
    assert done.words.endswith("two-tier is declared so.")
    assert "Only 2 rounds: latencies are those of a busy machine" in done.words
    assert "node 2 2 40 (40..40) 1,050 (1,050..1,050) -" in done.words
    assert "network 4 4 350 (350..350) 120 (120..120) 96%" in done.words
    assert not (root / "results").exists()


@pytest.mark.parametrize(
    ("far_us", "code", "said"),
    [
        (28_100.0, 0, "119%"),
        (27_800.0, 1, "121% of its declared 1000 Mbit/s, and 40% to 120% are allowed: correct the rate"),
        (83_000.0, 0, "40%"),
        (85_000.0, 1, "39% of its declared 1000 Mbit/s"),
    ],
)
def test_a_link_of_another_rate_than_declared_is_refused(
    far_us: float, code: int, said: str, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token bucket lets 4% of a message of 4 MiB pass unshaped, and a third of one of 512 KiB."""
    plant(monkeypatch, two_hosts(far_us=far_us))
    done = call("discover", "--deployment", "two-tier")
    assert done.code == code and said in (done.err or done.words)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"payload": 2**21}, "The link's rate was not judged: that takes --payload of at least 4MiB."),
        ({"alone": False}, "The link's rate was not judged: that takes pairs that are timed alone."),
    ],
)
def test_a_rate_is_judged_by_long_messages_alone(
    how: dict, said: str, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, two_hosts(far_us=1e6), **how)
    done = call("discover", "--deployment", "two-tier")
    assert done.code == 0 and said in done.words


def test_a_message_is_as_long_as_a_declared_link_takes() -> None:
    assert [discover._payload(rate) for rate in (None, 1.25e7, 1.25e8)] == [2**19, 2**19, 2**22]


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        (
            "[{name: network, ranks: 4}]",
            "ranks 0 and 1 take 4000 us, 0 and 3 35000 us, and no tier of 2 ranks",
        ),
        ("[{name: node, ranks: 4}]", "ranks 0 and 1 take 4000 us, 0 and 3 35000 us, and no tier of 2 ranks"),
    ],
)
def test_what_is_declared_otherwise_is_refused_with_the_pairs_and_the_mend(
    tiers: str, said: str, call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, two_hosts())
    wrong = declared(root, "wrong", tiers)
    done = call("discover", "--deployment", wrong)
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert f"wrong: {said} is declared: correct its tiers, or write" in done.err


def test_a_declared_tier_that_makes_no_difference_is_refused(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, np.full((2, 4, 4), NEAR_US) + np.diag([np.nan] * 4))
    done = call("discover", "--deployment", "two-tier")
    assert done.code == 1 and "and a tier of 2 ranks is declared" in done.err


def test_ranks_in_turns_are_refused_and_nothing_is_written(
    call: Call, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, two_hosts((0, 2, 1, 3)))
    file = root / "config/deployments/found.yaml"
    done = call("discover", "--deployment", "two-tier", "-o", str(file))
    assert (done.code, len(done.err.splitlines())) == (1, 1) and not file.exists()
    assert "ranks 0, 2 are near to one another, but not consecutive" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o {root}/found.yaml", "deployments are there"),
        ("-o {root}/config/deployments/Found.yaml", "in small letters"),
        ("-o {root}/config/deployments/two-tier.yaml", "it is there already"),
        ("--payload 3B", "multiple of 4 bytes"),
        ("--payload much", "such as 64KiB"),
        ("--seconds 0", "a time above 0"),
        ("--seconds nan", "a time above 0"),
    ],
)
def test_wrong_options_are_refused_before_ranks_start(
    options: str, said: str, call: Call, root: Path
) -> None:
    done = call("discover", *options.format(root=root).split())
    assert said in done.message(2)


@pytest.mark.ranks
def test_two_hosts_declared_flat_are_refused_and_found(call: Call, root: Path) -> None:
    """What is written is a deployment as good as `two-tier`: its Cases have the ways in two tiers."""
    flat = declared(root, "flat", "[{name: network, ranks: 4}]")
    folder = root / "config/deployments"
    hosts_or_skip(load(folder / "flat.yaml"))
    on = ("discover", "--seconds", "10", "--deployment", flat)
    done = call(*on)
    assert done.code == 1 and "no tier of 2 ranks is declared" in done.err
    assert call(*on, "-o", str(folder / "found.yaml")).code == 0
    found, known = load(folder / "found.yaml"), load(folder / "two-tier.yaml")
    assert found == known.changed(name="found")
    case = cases_of(read(root / "config/config.yaml", {"deployment": "found"}), found, "grad_ar", root)[0]
    problem = catalog.build(case)
    program = replay(Recipe(base="hierarchical"), problem)
    assert equivalence.prove(program, catalog.reference_program(problem)).passed
