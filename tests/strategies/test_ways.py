"""Ways are written once: every Problem of a kind has all of that kind, also one that a folder of one's own adds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from overlayccl_core import catalog, loader
from overlayccl_core.digest import Sources
from overlayccl_core.measuring.outcomes import Outcome
from overlayccl_core.program.kinds import Kind, NotApplicable, Reduction, Rejected
from overlayccl_core.program.library import functions_of, read_library
from overlayccl_core.program.nodes import Node
from overlayccl_core.program.problem import Problem
from overlayccl_core.program.tracing import trace_source
from overlayccl_core.program.ways import with_ways
from overlayccl_core.sandbox.tracing import trace_confined
from tests.known_cases import case, programs, proof_of
from tests.small_problems import exchange

WAYS = "strategies/ways"
OF_KIND = {
    **{Kind.ALL_REDUCE: "sums", Kind.ALL_GATHER: "gathers"},
    **{Kind.REDUCE_SCATTER: "scatters", Kind.ALL_TO_ALL: "exchanges"},
}
OWN = '''
from overlayccl_core.program.language import all_reduce
from overlayccl_core.strategies.ways import buffers


def one_and_the_rest(values, p):
    """The first alone, then the rest in one buffer."""
    return [all_reduce(values[0])] + (buffers.reduced(values[1:], p) if len(values) > 1 else [])
'''


def kinds(problem: Problem) -> set[str]:
    """What the ranks do together, by what the reference calls: a maximum is no sum."""
    calls = catalog.reference_program(problem).collectives
    return {OF_KIND[x.kind] for x in calls if x.kind in OF_KIND and not maximum(x)}


def maximum(x: Node) -> bool:
    return x.kind is Kind.ALL_REDUCE and x.attr.reduction is Reduction.MAX  # type: ignore[union-attr]


def public(name: str) -> set[str]:
    return {way for text in loader.sources(WAYS, name) for way in functions_of(text)}


@pytest.mark.parametrize("name", loader.names("problems"))
def test_every_problem_has_all_ways_of_what_its_reference_does(name: str) -> None:
    library = read_library(catalog.library_source(name))
    for kind in kinds(catalog.build(case(name))):
        named = {way.removesuffix(f"_{kind}") for way in library.ways}  # two kinds have a way of one name
        assert public(kind) <= named, f"strategies/{name}.py: LIBRARY lacks ways of {kind}"


COMPOSED = """
from overlayccl_core.program.language import broadcast, flatten, reduce_sum, reshape
from overlayccl_core.strategies.ways import buffers, exchanges, gathers


def copies(x, p):
    return exchanges.{exchange}(broadcast(x, 0, p.world_size), p)


def summed(values, p):
    return buffers.apart(reduce_sum({gather}(buffers.joined(values), p), 0), values)


def shared(values, p):
    came = exchanges.{exchange}(buffers.padded(buffers.joined(values), p.world_size), p)
    share = reduce_sum(reshape(came, (p.world_size, -1)), 0)
    return buffers.apart(flatten(copies(share, p)), values)


def tried(io, p):
    {template}(io, p, {way})


"""
OF_SUMS = {
    "grad_ar": ("_means",),
    "tp_mlp": ("_each_layer",),
    "layer_block_ar": ("_each_block",),
    "dist_ce": ("_after_the_maximum", "_without_a_maximum"),
}
OF_GATHERS = {
    "attention": ("_gathered",),
    "ring_kv": ("_in_one_buffer",),
    "fsdp_prefetch": ("_lockstep", "_merged"),
}


def composed() -> Iterator[tuple[str, str, str, str, str]]:
    """(Problem, function that takes a way, exchange, gather, way): one of each kind in the place of another."""
    for problem, templates in OF_GATHERS.items():
        yield from ((problem, t, e, "copies", "copies") for t in templates for e in exchanges())
    for problem, templates in OF_SUMS.items():
        for t in templates:
            yield from ((problem, t, e, "copies", way) for e in exchanges() for way in ("summed", "shared"))
            yield from ((problem, t, "native", f"gathers.{g}", "summed") for g in sorted(public("gathers")))


def exchanges() -> list[str]:
    return sorted(public("exchanges"))


@pytest.mark.parametrize("name", [*OF_SUMS, *OF_GATHERS])
def test_what_is_composed_of_ways_of_the_shared_kinds_is_in_the_library(name: str) -> None:
    """A gather is an exchange of copies; a sum a gather that everybody adds up, or two exchanges."""
    fields = dict(catalog.plug_in(name).examples(4)["small"])
    fields |= {"dist_ce": {"range": 40}, "fsdp_prefetch": {"microbatches": 1}}.get(name, {})
    problem = catalog.build(case(name, fields))
    known = {program.value_digest for program in programs(problem).values()}
    source = catalog.library_source(name)
    lacks = []
    for of, template, one, gather, way in composed():
        if of == name:
            text = COMPOSED.format(template=template, exchange=one, gather=gather, way=way)
            try:
                program = trace_source(source.replace("\nLIBRARY = ", f"{text}LIBRARY = "), "tried", problem)
            except NotApplicable:
                continue
            if program.value_digest not in known:
                lacks.append((template, one, gather, way))
    assert not lacks


def test_there_are_problems_of_every_kind_and_several_of_sums() -> None:
    found = {name: kinds(catalog.build(case(name))) for name in loader.names("problems")}
    assert {kind for of in found.values() for kind in of} == set(OF_KIND.values())
    assert [name for name, of in found.items() if "sums" in of] == [
        *("captured", "dist_ce", "grad_ar", "layer_block_ar", "tp_mlp"),
    ]


def test_a_linear_problem_of_sums_also_has_those_that_lose_bits() -> None:
    for name in ("grad_ar", "layer_block_ar", "tp_mlp"):
        assert public("lossy_sums") <= set(read_library(catalog.library_source(name)).ways)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of ways in a folder of one's own."""
    file = tmp_path / WAYS / "sums.py"
    file.parent.mkdir(parents=True)
    file.write_text(OWN)
    monkeypatch.setenv(loader.VARIABLE, str(tmp_path))
    return file


@pytest.mark.parametrize("name", ["dist_ce", "grad_ar", "layer_block_ar", "tp_mlp"])
def test_a_way_of_ones_own_is_a_strategy_of_every_problem_of_its_kind(own: Path, name: str) -> None:
    library = read_library(catalog.library_source(name))
    assert "one_and_the_rest" in library.ways and "all_to_all_of_copies" in library.ways
    program, proof = proof_of(catalog.build(case(name)), "one_and_the_rest")
    assert proof.outcome is Outcome.PASS
    confined = trace_confined(catalog.library_source(name), "one_and_the_rest", program.problem)
    assert confined.digest == program.digest


def test_the_digest_of_a_rule_sees_the_file_of_ways_and_ones_own(own: Path) -> None:
    def digest() -> str:
        return Sources().digest("known_ways", "strategies/layer_block_ar.py")

    files = Sources().closure("known_ways", "strategies/layer_block_ar.py")
    assert {loader.ROOT / WAYS / "sums.py", loader.ROOT / WAYS / "buffers.py", own} <= set(files)
    before = digest()
    own.write_text(OWN.replace("all_reduce(values[0])", 'all_reduce(values[0], "sum")'))
    assert digest() != before


def test_who_invents_strategies_is_shown_the_ways_that_a_library_has(own: Path) -> None:
    shown = with_ways(catalog.library_source("tp_mlp"))
    assert "def all_to_all_of_copies" in shown and "def reduced" in shown and "one_and_the_rest" in shown


IMPORT = "from overlayccl_core.strategies.ways import sums\n"
USE = "def tried(io, p):\n    io.write('y', sums.gather_and_sum([io.read('x')], p)[0])\n"


def test_a_source_may_call_a_way_by_its_name() -> None:
    problem = exchange(4, {"x": (8,)}, {"y": (8,)})
    program = trace_source(IMPORT + USE, "tried", problem)
    assert [x.kind for x in program.collectives] == [Kind.ALL_GATHER]
    assert trace_confined(IMPORT + USE, "tried", problem).digest == program.digest


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (IMPORT.replace("sums", "sumz") + USE, "line 1: .*'sumz' .*'sums'"),
        (IMPORT + USE.replace("gather_and_sum", "gather"), r"line 3: .*sums\.gather:"),
        (IMPORT + USE.replace("gather_and_sum", "_x"), "_x: .*an underscore"),
        (IMPORT + USE.replace("[io.read('x')]", "3"), r"line 3: .*sums\.py, line \d+: .*buffers\.py"),
        ("from overlayccl_core.strategies import tp_mlp\n" + USE, "the only import is"),
    ],
)
def test_what_is_wrong_with_a_way_is_said_with_its_place(source: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        trace_source(source, "tried", exchange(4, {"x": (8,)}, {"y": (8,)}))


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ("ways=((sums, _no),)", "ways must .*of pairs"),
        ("ways=((gathers, tried),)", "ways must .*of pairs"),
        ("ways=(sums, tried)", "ways must .*of pairs"),
        ("ways=((sums, tried), (sums, tried))", "coalesced .*another name"),
    ],
)
def test_a_library_with_ways_that_are_not_there_is_refused(ways: str, said: str) -> None:
    with pytest.raises(Rejected, match=said):
        read_library(f'{IMPORT}{USE}LIBRARY = Library(developer="tried", {ways})\n')


def test_ways_that_are_made_of_each_other_in_a_circle_are_refused(own: Path) -> None:
    """The package's gathers are made of exchanges."""
    turned = "def _turned(x, p, way):\n    return way(x, p)\n\n\nDERIVED = ((gathers, _turned),)\n"
    own.with_name("exchanges.py").write_text(f"{IMPORT.replace('sums', 'gathers')}\n\n{turned}")
    with pytest.raises(Rejected, match=r"made of .*: exchanges -> gathers ->"):
        read_library(catalog.library_source("uniform_a2a"))


def test_ways_that_import_each_other_in_a_circle_are_refused(own: Path) -> None:
    own.write_text(IMPORT)
    with pytest.raises(Rejected, match="circle: sums -> sums"):
        trace_source(IMPORT + USE, "tried", exchange(4, {"x": (8,)}, {"y": (8,)}))
