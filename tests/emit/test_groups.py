"""Groups of a deployed module in one process: memory, versions, counters. The other rank holds the same."""

import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from overlayccl_core import catalog
from overlayccl_core.emit.deployed import deployed_module
from overlayccl_core.emit.torch_dialect import emit
from overlayccl_core.program.case import Case
from tests.emit.deployed_modules import entry, library_way
from tests.emit.test_another_library import MIRROR, STAMP, namespace

M = 3
SHAPE = (1, 3, 6)


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that holds backends/mirror/calls.py."""
    monkeypatch.setenv("OVERLAYCCL_PLUGINS", str(Path(__file__).parent / "plugins"))


def tp(site: str, problem: str = "tp_mlp") -> Case:
    fields = {"microbatches": M, "layers": 2, "shape": list(SHAPE), "site": site}
    return catalog.case(problem, fields, ranks=2, ranks_per_node=2)


@pytest.fixture
def module() -> dict[str, Any]:
    """Both sites of tp_mlp, one all_reduce a layer."""
    cases = [entry(tp(site), "merged_over_microbatches") for site in ("exit", "entry")]
    return namespace(deployed_module("tp_mlp", cases, STAMP, calls=MIRROR))


def leaves() -> list[torch.Tensor]:
    return [torch.full(SHAPE, i + 1.0, requires_grad=True) for i in range(M)]


def test_outputs_lie_where_the_generator_wrote_them_each_with_a_version_of_its_own(
    module: dict[str, Any],
) -> None:
    for xs in (leaves(), [x.detach() for x in leaves()]):
        ys = module["connect"](tp("exit").id).group(0)(xs)
        [start] = {y.untyped_storage().data_ptr() for y in ys}  # one buffer: nothing was copied
        assert [y.data_ptr() - start for y in ys] == [i * ys[0].nbytes for i in range(M)]
        with torch.no_grad():
            ys[0].add_(1)
        assert [y._version for y in ys] == [1, 0, 0] and [y.mean().item() for y in ys] == [3, 4, 6]


def test_what_a_group_gives_shares_no_memory_with_anything_of_the_scripts(module: dict[str, Any]) -> None:
    """Outputs that the emitter tells of are copied; a cotangent that comes back is itself where it may be."""
    buffer = torch.arange(8.0)

    def statements() -> Iterator[Any]:
        x = yield module["Read"]("x")
        yield module["Write"]("whole", x)
        yield module["Write"]("part", x[:4])
        yield module["Write"]("first", buffer[:4])
        yield module["Write"]("second", buffer[2:6])

    spec = module["Spec"]
    writes = {(name,): spec((n,), torch.float32) for name, n in
              (("whole", 6), ("part", 4), ("first", 4), ("second", 4))}  # fmt: skip
    one = module["ENTRIES"][tp("exit").id]._replace(
        inputs={"forward": {("x",): spec((6,), torch.float32)}},
        outputs={"forward": writes},
        groups=(((("x",),), tuple(writes)),),
        gradient="none",
    )
    shared = {("whole",): ("x",), ("part",): None, ("second",): None}
    sections = {"forward": (module["Section"](0, statements, {}, shared),)}
    alone = module["Agreement"](False, {}, (0, 1), None)
    group = module["Group"]("case", one, 0, sections, torch.device("cpu"), alone)
    given = torch.arange(6.0)
    values = group([given])
    wanted = [x.clone() for x in values]
    for i, x in enumerate(values):
        x.add_(1)
        wanted[i] += 1
        assert all(torch.equal(y, want) for y, want in zip(values, wanted, strict=True))
    assert torch.equal(given, torch.arange(6.0)) and {x._version for x in values} == {1}
    assert values[2].data_ptr() == buffer.data_ptr()  # nothing is copied in vain
    layout = module["_Layout"]
    whole, part, *_ = group.gradients("forward", [given], [layout(x.shape) for x in values])
    assert whole is given and part.data_ptr() != given.data_ptr() and torch.equal(part, given[:4])
    turned, *_ = group.gradients(
        "forward", [given], [layout(s) for s in ((2, 3), *(x.shape for x in values[1:]))]
    )
    assert turned.shape == (2, 3) and turned.data_ptr() != given.data_ptr()


def test_a_backward_that_is_the_identity_gives_the_cotangents_themselves(module: dict[str, Any]) -> None:
    xs = leaves()
    ys = module["connect"](tp("exit").id).group(0)(xs)
    cotangents = [torch.randn(SHAPE) for _ in ys]
    came = torch.autograd.grad(ys, xs, cotangents)
    assert [x.data_ptr() for x in came] == [c.data_ptr() for c in cotangents]


def test_calls_are_counted_by_section_and_only_where_it_ran_to_its_end(module: dict[str, Any]) -> None:
    leave, enter = (module["connect"](tp(site).id) for site in ("exit", "entry"))
    leave.group(1)(leaves())
    hs = enter.group(0)(leaves())
    assert leave.stamp()["calls"] == {"all_reduce": 1} and enter.stamp()["calls"] == {}
    torch.stack(hs).sum().backward()
    assert enter.stamp()["calls"] == {"all_reduce": 1}
    steps: Iterator[Any] = leave.forward()
    next(steps)
    assert leave.stamp()["calls"] == {"all_reduce": 1}
    leave.selftest()
    assert leave.stamp()["calls"] == {"all_reduce": 1}
    assert leave.stamp()["selftest_calls"] == {"all_reduce": 2 + 2 * M}  # chosen and plain, two layers


def test_autocast_does_not_reach_the_calls(module: dict[str, Any]) -> None:
    seen: list[bool] = []
    real = module["all_reduce"]
    module["all_reduce"] = lambda *a: (seen.append(torch.is_autocast_enabled("cpu")), real(*a))[1]
    group = module["connect"](tp("exit").id).group(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        group(leaves())
        assert torch.is_autocast_enabled("cpu")
    assert seen == [False]


def test_what_is_no_tensor_is_named(module: dict[str, Any]) -> None:
    group = module["connect"](tp("exit").id).group(1)
    with pytest.raises(ValueError, match=r"group 1 .*at 2 .*\[2, 1"):
        group([*leaves()[1:], None])
    with pytest.raises(ValueError, match=r"got 3, .*at 0 .*\(.*at 2"):
        group([None, leaves()[1], torch.zeros(3)])
    with pytest.raises(ValueError, match=r"got 2: partial\[2, 1\]"):
        group(leaves()[1:])


def test_the_checked_mode_lets_pass_what_fits(
    monkeypatch: pytest.MonkeyPatch, module: dict[str, Any]
) -> None:
    monkeypatch.setenv("OVERLAYCCL_CHECK", "1")
    leave, enter = (module["connect"](tp(site).id) for site in ("exit", "entry"))
    xs = leaves()
    ys = leave.group(0)(enter.group(0)(xs))
    torch.stack(ys).sum().backward()
    assert [y.mean().item() for y in ys] == [2, 4, 6]
    assert [x.grad.mean().item() for x in xs if x.grad is not None] == [2] * M
    assert leave.stamp()["checks"]
    steps = leave.forward()
    event = next(steps)
    steps.send(leaves()[0].view(-1))
    with pytest.raises(ValueError, match=r"\[1, 0\] .* 18 .*1, 3, 6"):
        steps.send(leaves()[1])
    assert event.port == ("partial", 0, 0)


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """What torch was asked for, and the bytes that were alive before."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []
        self.made: list[Any] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        alive = [storage for of in self.made if (storage := of()) is not None]
        self.seen.append((str(function), sum(storage.nbytes() for storage in alive)))
        result = function(*args, **(kwargs or {}))
        storage = result.untyped_storage()
        if not any(storage is one for one in alive):
            self.made.append(weakref.ref(storage))
        return result


def test_a_files_generators_do_what_the_emitted_module_does_and_hold_nothing_longer(
    module: dict[str, Any],
) -> None:
    emitted = namespace(emit(library_way(tp("exit"), "merged_over_microbatches"), calls=MIRROR))
    emitted["connect"]()
    file = module["connect"](tp("exit").id)
    seen = []
    for generator, read in ((emitted["forward"](), emitted["Read"]), (file.forward(), module["Read"])):
        with Operations() as operations:
            event = next(generator)
            while event is not None:
                try:
                    x = torch.ones(SHAPE).view(-1) if isinstance(event, read) else None
                    event = generator.send(x)
                except StopIteration:
                    event = None
        seen.append(operations.seen)
    assert seen[0] == seen[1] and len(seen[0]) > 4


def test_a_gradient_that_is_no_plain_tensor_is_refused_in_words_and_a_sign_to_come_is_applied(
    module: dict[str, Any],
) -> None:
    enter = module["connect"](tp("entry").id).group(0)
    xs = leaves()
    ys = enter(xs)
    negated = [torch._neg_view(-torch.full(SHAPE, 3.0)) for _ in ys]
    [got, *_] = torch.autograd.grad(ys, xs, negated, retain_graph=True)
    assert got.mean().item() == 6 and not got.is_neg()
    sparse = [torch.full(SHAPE, 3.0).to_sparse() for _ in ys]
    with pytest.raises(ValueError, match=r"gradient at 0 .*sparse"):
        torch.autograd.grad(ys, xs, sparse)


@pytest.mark.parametrize("site", ["entry", "exit"])
def test_no_second_derivative_is_dropped_without_a_word(module: dict[str, Any], site: str) -> None:
    xs = leaves()
    ys = module["connect"](tp(site).id).group(0)(xs)
    with pytest.raises(RuntimeError, match=r"derivative.*create_graph"):
        torch.autograd.grad([y.square().sum() for y in ys], xs, create_graph=True)
    torch.autograd.grad([y.sum() for y in module["connect"](tp(site).id).group(0)(xs)], xs)


def test_no_tangent_is_dropped_without_a_word(module: dict[str, Any]) -> None:
    """Of gradients in forward mode, in whose level others than dual tensors pass."""
    group = module["connect"](tp("exit").id).group(0)
    ones = tuple(torch.ones(SHAPE) for _ in range(M))
    with pytest.raises(ValueError, match=r"dual tensor .* at 0"), torch.no_grad():
        torch.func.jvp(lambda *xs: group(xs), ones, ones)
    with forward_ad.dual_level():
        group(ones)
        with pytest.raises(ValueError, match=r"dual tensor .* at 1"):
            group([ones[0], forward_ad.make_dual(ones[1], ones[1]), ones[2]])


def test_statements_get_memory_as_it_lies_without_a_sign_to_come(module: dict[str, Any]) -> None:
    """Forward and backward: a library reads it where it is."""
    came: list[torch.Tensor] = []
    real = module["answer"]
    module["answer"] = lambda *a: (came.extend(a[1].values()), real(*a))[1]
    leave, enter = (module["connect"](tp(site).id).group(0) for site in ("exit", "entry"))
    given, xs = [torch._neg_view(-x.detach()) for x in leaves()], leaves()
    for ys in (leave(given), torch.autograd.grad(enter(xs), xs, given)):
        assert [y.mean().item() for y in ys] == [2, 4, 6]
    assert len(came) == 2 * M and all(x.is_contiguous() and not x.is_neg() for x in came)


def test_what_answers_a_read_is_compared_before_the_next_statement_and_may_be_mended(
    module: dict[str, Any],
) -> None:
    case, port = tp("exit").id, ("partial", 0, 0)
    specs = module["ENTRIES"][case].inputs["forward"]
    specs[port] = specs[port]._replace(within=(-5, 5))
    flat = torch.ones(18)
    freed = torch.ones(18)
    freed.untyped_storage().resize_(0)
    steps = module["connect"](case).forward()
    assert next(steps).port == port
    for wrong, shown in {
        "in its own shape": (torch.ones(SHAPE), r"got \(1, 3, 6\)"),
        "too long": (torch.ones(36), r"got \(36,\)"),
        "of another type": (flat.double(), "got .* torch.float64"),
        "elsewhere": (flat.to("meta"), "on meta"),
        "strided": (torch.ones(36)[::2], "strided"),
        "negated": (torch._neg_view(-flat), "got"),
        "nothing": (None, "got NoneType"),
        "freed": (freed, "beyond the end of its storage"),
        "out of range": (6 * flat, "has values from 6 to 6, and -5 to 5 are allowed"),
    }.values():
        with pytest.raises(ValueError, match=rf"partial\[0, 0\] .*{shown}"):
            steps.send(wrong)
    event = steps.send(flat)
    while isinstance(event, module["Read"]):
        event = steps.send(flat)
    assert event.value.mean() == 2
    steps.close()
    with pytest.raises(StopIteration):
        next(steps)


def test_a_generator_keeps_nothing_that_it_was_given_or_gave(module: dict[str, Any]) -> None:
    steps = module["connect"](tp("exit").id).forward()
    assert next(steps).port[0] == "partial"
    x = torch.ones(18)
    given = weakref.ref(x)
    event = steps.send(x)
    del x
    for _ in range(M - 1):
        event = steps.send(torch.ones(18))
    assert given() is None and isinstance(event, module["Write"])
    assert sys.getrefcount(event) == 2  # this variable's, and the question's own


def test_a_tensor_beyond_the_end_of_its_storage_is_refused_wherever_it_comes(module: dict[str, Any]) -> None:
    leave, enter = (module["connect"](tp(site).id).group(0) for site in ("exit", "entry"))
    for bytes_left, lie in ((0, SHAPE), (40, SHAPE), (71, (1, 6, 3))):
        xs = leaves()
        short = torch.ones(lie).transpose(1, 2) if lie != SHAPE else torch.ones(SHAPE)
        assert leave([short, *xs[1:]])[0].mean() == 2
        short.untyped_storage().resize_(bytes_left)
        for group in (leave, enter):
            with pytest.raises(ValueError, match=r"storage.* at 0 in place"):
                group([short, *xs[1:]])
        with pytest.raises(ValueError, match=r"gradient at 0 .*storage"):
            torch.autograd.grad(enter(xs), xs, [short, *xs[1:]])
    part = torch.ones(2, *SHAPE)[1]  # the end of a longer one is whole
    assert leave([part, *xs[1:]])[0].mean() == 2


def blocks(site: str) -> Case:
    return tp(site, "layer_block_ar")


@pytest.fixture
def parallel() -> dict[str, Any]:
    """Both sites of layer_block_ar."""
    cases = [entry(blocks(site), "developer") for site in ("exit", "entry")]
    return namespace(deployed_module("layer_block_ar", cases, STAMP, calls=MIRROR))


def test_an_identity_gives_each_part_its_whole_and_sums_their_gradients(parallel: dict[str, Any]) -> None:
    group = parallel["connect"](blocks("entry").id).group(1)
    assert group.inputs == tuple(("total", m, 1) for m in range(M))
    assert group.outputs == tuple(("partial", m, 1, part) for m in range(M) for part in (0, 1))
    xs = [torch.ones(1, 6, 3).transpose(1, 2).requires_grad_() for _ in range(M)]
    ys = group(xs)
    assert [y.data_ptr() for y in ys] == [x.data_ptr() for x in xs for _ in (0, 1)]
    assert len({id(y) for y in ys}) == 2 * M
    back = torch.autograd.grad(ys, xs, [torch.full(SHAPE, float(i)) for i in range(2 * M)])
    assert [d.mean().item() for d in back] == [2 * (4 * m + 1) for m in range(M)]  # two ranks
    assert {d.stride() for d in back} == {xs[0].stride()}
    one = torch.autograd.grad(group(xs)[3].sum(), xs, allow_unused=True)
    assert [d.mean().item() for d in one] == [0, 2, 0]
    with pytest.raises(RuntimeError, match="modified inplace"):
        group(xs)[0].add_(1)
    with torch.no_grad():
        assert [y.data_ptr() for y in group(xs)] == [x.data_ptr() for x in xs for _ in (0, 1)]
    with pytest.raises(ValueError, match=r"list of 3 .*; got 6"):
        group(ys)


def test_a_total_lies_as_its_first_part(parallel: dict[str, Any]) -> None:
    group = parallel["connect"](blocks("exit").id).group(0)
    strided = torch.ones(1, 6, 3).transpose(1, 2)
    ys = group([strided, torch.ones(SHAPE)] * M)
    assert {y.stride() for y in ys} == {strided.stride()} and {y.mean().item() for y in ys} == {4}
    assert {y.stride() for y in group([torch.ones(SHAPE), strided] * M)} == {torch.ones(SHAPE).stride()}


@pytest.mark.parametrize("checks", ["0", "1"])
def test_whatever_a_call_is_given_is_refused_in_the_same_way(
    monkeypatch: pytest.MonkeyPatch, module: dict[str, Any], checks: str
) -> None:
    """The ranks meet before anything is raised in the checked mode: all of it passes by the same place."""
    monkeypatch.setenv("OVERLAYCCL_CHECK", checks)
    connected = module["connect"](tp("exit").id)
    met: list[Any] = []
    module["everybody_says"] = lambda mine, group=None: (met.append(mine), [mine, mine])[1]

    def broken() -> Iterator[torch.Tensor]:
        raise KeyError("of the script's")
        yield

    group, xs = connected.group(0), leaves()
    for number, (call, shown) in enumerate(
        (
            (lambda: group(), "got 0"),
            (lambda: group(None), "TypeError: 'NoneType' object is not iterable"),
            (lambda: group(broken()), 'KeyError: "of the script\'s"'),
            (lambda: group(xs, xs), "got 2, and list at 0 in place of"),
            (lambda: group(xs, counts=[1]), "has no argument 'counts': it takes none"),
            (lambda: connected.forward(counts=[1]), "has no argument 'counts': it takes none"),
        ),
        1,
    ):
        with pytest.raises(ValueError, match=shown):
            call()
        assert len(met) == number * int(checks)
