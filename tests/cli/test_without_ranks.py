"""Commands that start no ranks, on a deployment that was fitted: what they print, within 80 columns."""

import shutil
from pathlib import Path

import pytest

from overlayccl_core import catalog
from overlayccl_core.stages import price
from overlayccl_core.stages.known_ways import known_way_rows
from overlayccl_core.tables.bench import BENCH
from overlayccl_core.tables.choice import CHOICE, VERDICTS
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.known_ways import KNOWN_WAYS
from overlayccl_core.tables.prices import PRICES
from overlayccl_core.tables.table import read, write
from overlayccl_core.tables.theta import THETA
from tests.cli.repository import REPOSITORY, Call, too_wide
from tests.fake_timings import bench_rows
from tests.known_cases import case
from tests.rows import row

KEY = ("case", "direction")


def test_problems_lists_each_with_strategies_roles_and_cases(call: Call) -> None:
    done = call("problems")
    assert done.code == 0 and not too_wide(done.out)
    developers = (
        "native, 6 lines (developer)",
        "gather_slice, 8 lines (developer where the library has no native)",
    )
    for part in (
        "tp_mlp: sums",
        "uniform_a2a: every rank",
        "grad_ar: the gradients",
        "(hand bundled)",
        *developers,
    ):
        assert part in done.words
    for part in ("gradient[0..", "uniform_a2a/n4-64KiB-f32", "microbatches, layers, layer_order"):
        assert part in done.words
    for part in ("pp_send_recv/n4-m4-32KiB-1f1b-f32", "a[0..3] of (2, 64, 128) (valid in part), ga[0..3]"):
        assert part in done.words  # its Cases are configured, though no run measures them
    alone = call("problems", "tp_mlp")
    assert "Megatron's g" in alone.words and "grad_ar" not in alone.words and not too_wide(alone.out)
    assert "did you mean 'tp_mlp'" in call("problems", "tp_mpl").err


def test_a_problem_whose_cases_are_of_models_is_listed_traced_and_proven(call: Call, root: Path) -> None:
    listed = call("problems", "fsdp_prefetch")
    for part in (
        "fsdp_prefetch/n4-m1-l4-840KiB-f32",
        "shard[0..3] of (420, 128)",
        "reads d_full[0, 0..3]",
    ):
        assert part in listed.words
    arguments = ("--problem", "fsdp_prefetch", "--case", "n4-m1-l4-840KiB-regather-f32")
    assert "4 all_gather of 840KiB over 4" in call("trace", "prefetched", *arguments).words
    file = REPOSITORY / "overlayccl_core/strategies/fsdp_prefetch.py"
    done = call("prove", f"{file}::in_lockstep", "--problem", "fsdp_prefetch")
    assert done.code == 0 and done.out.count("proven, exact") == 4


def test_trace_shows_the_program_of_a_known_way_and_of_a_file(call: Call, root: Path) -> None:
    entry = '{"sizes": [5, 6, 7]}'
    way = call("trace", "flat", "--problem", "grad_ar", "--case-json", entry)
    assert way.code == 0
    for part in ("flat at grad_ar/n4-t3-72B-f32, forward", "1: 1 all_reduce of 72B over 4", "depth 1"):
        assert part in way.words
    assert "108B by the busiest rank" in way.words and "72B a rank" in way.words and "legal yes" in way.words
    assert "concat(gradient_0, gradient_1, gradient_2) f32[18]" in way.words
    mine = call("trace", f"{root}/mine.py::exchange", "--problem", "uniform_a2a")
    assert "v1 = all_to_all(send)" in mine.words


def test_trace_of_a_backward_names_its_own_known_ways(call: Call) -> None:
    backward = ("--problem", "uniform_a2a", "--direction", "backward")
    assert "read d_received" in call("trace", "simplified_transpose_of_native", *backward).words
    wrong = call("trace", "simplified_transpose_of_natve", *backward)
    assert wrong.code == 2 and "'simplified_transpose_of_native'" in wrong.err
    none = call("trace", "flat", "--problem", "grad_ar", "--direction", "backward")
    assert none.code == 2 and "has no backward" in none.err


def test_trace_prints_the_emitted_module_alone(call: Call) -> None:
    done = call("trace", "native", "--problem", "uniform_a2a", "--code")
    compiled = compile(done.out, "module", "exec")
    assert done.code == 0 and "forward" in compiled.co_names


def test_score_prices_by_term_beside_the_developer_and_the_cheapest_known_way(call: Call) -> None:
    done = call("score", "gather_slice", "--problem", "uniform_a2a", "--case", "n4-64KiB-f32")
    assert done.code == 0, done.err
    for part in ("proven, exact", "yours: gather_slice", "developer", "collectives", "predicted", "more"):
        assert part in done.words
    assert not too_wide("\n".join(done.out.splitlines()[1:]))


def test_score_shows_a_program_once_with_all_that_it_is(call: Call, root: Path) -> None:
    done = call("score", f"{root}/mine.py::exchange", "--problem", "uniform_a2a", "--case", "n4-64KiB-f32")
    assert "yours = developer" in done.words and "exchange = native" in done.words
    assert done.words.count("native") == 1 and "cheapest known way" in done.words


def test_the_cheapest_known_way_is_the_developers_where_that_is_the_cheapest(call: Call) -> None:
    entry = '{"microbatches": 1, "layers": 1, "shape": [1, 1024, 1024]}'
    done = call("score", "reduce_scatter_all_gather", "--problem", "tp_mlp", "--case-json", entry)
    assert "developer = cheapest" in done.words, done.out


@pytest.mark.parametrize("command", ["score", "try"])
def test_a_strategy_of_the_backward_is_asked_in_that_direction(call: Call, command: str) -> None:
    without = ["--no-measure"] if command == "try" else []
    named = (command, "simplified_transpose_of_gather_slice", "--problem", "uniform_a2a", *without)
    done = call(*named, "--direction", "backward")
    assert done.code == 0 and "backward" in done.words, done.err
    assert "not applicable" not in done.words
    wrong = call(*named)
    assert wrong.code == 2 and "--direction backward" in wrong.err


def test_a_preset_is_meant_before_and_after_the_command(call: Call, bare: Path) -> None:
    preset = ("--preset", "evidence")
    arguments = ("score", "developer", "--problem", "tp_mlp", "--case", "n4-m1-l8-64KiB-f32")
    for asked in ((*preset, *arguments), (*arguments, *preset)):
        assert "with preset evidence" in call("--root", str(bare), *asked).message(2)
    assert "did you mean 'smoke'?" in call(*arguments, "--preset", "smok").message(2)


def test_a_problem_without_cases_takes_the_fields_of_one(call: Call) -> None:
    asked = ("ring_kv", "--preset", "evidence")
    done = call("trace", "ring", "--problem", *asked)
    assert done.code == 2 and "ring_kv has no Case" in done.err and "with preset evidence" in done.err
    assert "--case-json" in done.err and "problems ring_kv" in done.err
    assert "none configured" in call("problems", *asked).words


def chosen(root: Path, folder: Path) -> Path:
    """What `explain` reads, of one small Case: all known ways priced and measured, `permute_ring` chosen,
    the developer's the slowest."""
    shutil.copytree(root / "config", folder / "config")
    fit = root / "results" / "local"
    theta = price.theta_of(read(THETA, fit / "theta.parquet"), read(FIDELITY, fit / "fidelity.parquet"))
    tables = folder / "results" / "local" / "problems" / "uniform_a2a"
    rows = list(known_way_rows(catalog.build(case("uniform_a2a")), None, None))
    write(KNOWN_WAYS, rows, tables / "known_ways.parquet")
    programs = [way for way in rows if way["equivalence"] == "pass"]
    write(PRICES, [price._row(way, theta) for way in programs], tables / "prices.parquet")
    timed = [
        one
        for way in programs
        for one in bench_rows(
            [way | {"candidate": way["strategy"]}], us=9e4 if way["strategy"] == "native" else None
        )
    ]
    write(BENCH, timed, tables / "bench.parquet")
    ring = next(way for way in programs if way["strategy"] == "permute_ring")
    known = {key: ring[key] for key in (*KEY, "recipe", "numerics", "program", "value_digest")}
    choice = row(CHOICE, **known, candidate="permute_ring", arm="best_known_way")
    write(CHOICE, [choice], tables / "choice.parquet")
    place = {key: ring[key] for key in KEY}
    why = row(VERDICTS, **place, gate="choice", outcome="pass", message="faster than all that is plainer")
    write(VERDICTS, [why], tables / "verdicts.parquet")
    return tables


def test_explain_compares_the_choice_with_runner_up_and_developer(
    call: Call, root: Path, tmp_path: Path
) -> None:
    tables = chosen(root, tmp_path)
    done = call("--root", str(tmp_path), "explain")
    assert done.code == 0, done.err
    for part in (
        "uniform_a2a/n4",
        "chosen: permute_ring",
        "runner-up: ",
        "developer: native",
        "collectives",
        "predicted",
        "measured",
        "95%",
        "permute_ring: faster than all that is plainer",
    ):
        assert part in done.words
    assert not too_wide(done.out)
    assert "no choice for n9" in call("--root", str(tmp_path), "explain", "--case", "n9").err
    wrong = call("--root", str(tmp_path), "explain", "--problem", "uniform_a2").err
    assert "no Problem 'uniform_a2'" in wrong and "'uniform_a2a'" in wrong
    (tables / "prices.parquet").unlink()
    assert "nothing is chosen yet" in call("--root", str(tmp_path), "explain").err
