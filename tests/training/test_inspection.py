"""What is counted of a step while it runs."""

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import flop_registry, register_flop_formula

from overlayccl_core.step.segment import StepSegment
from overlayccl_core.training import kernels
from overlayccl_core.training.inspection import ModelWork, _Held, inspect, make_waiting
from overlayccl_core.training.kernels import UnknownKernel, multiplies, no_product

ELEMENTS = 1000
BYTES = 4 * ELEMENTS


def test_calls_that_wait_are_over_where_they_start_and_give_the_same() -> None:
    waited: list[int] = []

    class Work:
        def wait(self) -> None:
            waited.append(1)

    module = ModuleType("emitted")
    module.all_reduce = lambda x, group: (x + 1, Work())  # type: ignore[attr-defined]
    make_waiting(module)
    value, work = module.all_reduce(torch.ones(2), None)
    assert value.tolist() == [2.0, 2.0] and waited == [1]
    work.wait()
    assert waited == [1] and not hasattr(module, "all_gather")


def test_the_peak_is_the_most_that_was_held_at_a_time_not_what_was_held_last() -> None:
    x = torch.ones(ELEMENTS, requires_grad=True)

    def step() -> None:
        x.grad = None
        squares = [x.tanh() for _ in range(3)]  # each saves what it gives
        squares.clear()
        x.tanh().sum().backward()

    # x and three results
    assert inspect(step).peak_memory_bytes == 4 * BYTES


def test_views_of_one_storage_are_held_once_and_what_is_let_go_does_not_count() -> None:
    x = torch.ones(ELEMENTS)

    def step() -> None:
        for _ in range(4):
            y = x.sin()
            halves = y[:500], y[500:]
            del y
            del halves

    assert inspect(step).peak_memory_bytes == 2 * BYTES


def test_what_lives_from_step_to_step_counts_all_the_time() -> None:
    """A framework's buffers are touched late in a step and are there when activations are most."""
    buffer = torch.zeros(4 * ELEMENTS)
    x = torch.ones(ELEMENTS)

    def step() -> None:
        three = [x.sin() for _ in range(3)]
        del three
        buffer.zero_()

    assert inspect(step).peak_memory_bytes == (1 + 3 + 4) * BYTES


def test_what_is_not_weighed_takes_one_step_and_is_counted_all_the_same() -> None:
    x, taken = torch.ones(4, 4), []

    def step() -> None:
        taken.append(x @ x)

    whole = inspect(step)
    before = len(taken)
    one = inspect(step, weighed=False)
    assert (before, len(taken) - before) == (3, 1)
    assert one.peak_memory_bytes is None and whole.peak_memory_bytes
    assert (one.matmuls, one.matmul_digest) == (whole.matmuls, whole.matmul_digest) == (1, one.matmul_digest)


def test_what_one_of_two_steps_held_a_moment_longer_does_not_count() -> None:
    longer = iter([0, 3, 0])  # as where a thread of the library lets a buffer go late

    def step() -> None:
        kept = [torch.zeros(ELEMENTS) for _ in range(1 + next(longer))]
        del kept

    assert inspect(step).peak_memory_bytes == BYTES


def test_a_storage_that_was_made_empty_counts_nothing() -> None:
    def step() -> None:
        given_up = torch.zeros(8 * ELEMENTS)
        given_up.untyped_storage().resize_(0)
        kept = torch.zeros(ELEMENTS)
        kept.sin()
        del given_up

    assert inspect(step).peak_memory_bytes == 8 * BYTES


def test_matmuls_of_forward_and_backward_are_counted_and_told_apart_by_their_shapes() -> None:
    weight = torch.ones(4, 5, requires_grad=True)

    def step(rows: int) -> None:
        (torch.ones(rows, 4) @ weight).sum().backward()

    counts = [inspect(lambda rows=rows: step(rows)) for rows in (2, 2, 3)]
    assert [one.matmuls for one in counts] == [2, 2, 2]
    assert counts[0].matmul_digest == counts[1].matmul_digest != counts[2].matmul_digest


def attention() -> None:
    q = torch.ones(1, 2, 4, 8, requires_grad=True)
    scaled_dot_product_attention(q, q, q).sum().backward()


@pytest.mark.parametrize("kernel", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_attention_counts_whichever_kernel_it_has(kernel: SDPBackend) -> None:
    with sdpa_kernel(kernel):
        assert inspect(attention).matmuls == (6 if kernel is SDPBackend.MATH else 2)


@pytest.mark.parametrize("backward", ["", "_backward"])
@pytest.mark.parametrize("kernel", ["flash", "efficient", "cudnn", "flash_for_cpu"])
def test_every_kernel_of_attention_is_a_product(kernel: str, backward: str) -> None:
    family, _, device = kernel.partition("_")
    name = f"_scaled_dot_product_{family}_attention{'_' if device else ''}{device}{backward}"
    assert multiplies(getattr(torch.ops.aten, name).default)


@pytest.fixture(scope="module")
def foreign() -> Iterator[torch.library.Library]:
    """Kernels that only their author knows."""
    library = torch.library.Library("some_lab", "FRAGMENT")
    for name, tags in (("secret", ()), ("sorts", ()), ("harmless", (torch.Tag.pointwise,))):
        library.define(f"{name}(Tensor x) -> Tensor", tags=tags)
        library.impl(name, lambda x: x * 2, "CPU")
    yield library
    flop_registry.pop(torch.ops.some_lab.secret, None)
    kernels._declared.clear()
    library._destroy()


def test_products_of_modules_and_kernels_that_do_a_problems_work_are_not_the_models() -> None:
    x = torch.randn(1, 2, 4, 8)

    def products(model: ModelWork, segments: bool) -> int:
        def step() -> None:
            one = StepSegment(name=("one",), work=lambda _: {("s", ("p",)): x @ x.transpose(2, 3)})
            for segment in model.within(iter((one,))) if segments else (one,):
                segment.work({})
            x @ x.transpose(2, 3)  # a module's, if there are segments
            scaled_dot_product_attention(x, x, x)

        return inspect(step, model=model).matmuls

    attention = ("aten._scaled_dot_product",)
    assert products(ModelWork(), segments=False) == 3
    assert products(ModelWork(exchanged=attention), segments=False) == 2
    assert products(ModelWork(exchanged=attention), segments=True) == 1


def test_an_unknown_kernel_fails_the_count_with_its_name_and_the_mend(foreign: torch.library.Library) -> None:
    x = torch.ones(3, 3)
    with pytest.raises(UnknownKernel, match=r"\.secret .*_flop_formula"):
        inspect(lambda: torch.ops.some_lab.secret(x @ x))
    assert inspect(lambda: torch.ops.some_lab.harmless(x @ x)).matmuls == 1
    with pytest.raises(UnknownKernel, match=r"some_lab\.sorts"):
        inspect(lambda: torch.ops.some_lab.sorts(x @ x))
    no_product("some_lab.sorts")
    assert inspect(lambda: torch.ops.some_lab.sorts(x @ x)).matmuls == 1
    register_flop_formula(torch.ops.some_lab.secret)(lambda shape, **_: 0)
    assert inspect(lambda: torch.ops.some_lab.secret(x @ x)).matmuls == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda x: torch.mv(x, x[0]),
        lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None]),
        lambda x: torch.einsum("ij,jk->ik", x, x),
        lambda x: torch.baddbmm(x[None], x[None], x[None]),
    ],
)
def test_products_in_other_words_count(step: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert inspect(lambda: step(torch.ones(3, 3))).matmuls == 1


def test_a_solver_is_not_taken_for_no_product() -> None:
    """What torch itself brings may be unknown too: nothing says that it multiplies no matrices."""
    with pytest.raises(UnknownKernel, match="linalg_solve"):
        inspect(lambda: torch.linalg.solve(torch.eye(3), torch.ones(3)))


def test_no_operation_of_an_emitted_module_is_unknown() -> None:
    """What the printed code does to layouts (torch_views, runtime/layout) and to values."""

    def step() -> None:
        x = torch.arange(12.0)
        rows = (
            torch.cat([x.repeat(2), x.new_zeros(4), x[2:6]]).view(-1, 4).index_select(0, torch.tensor([2, 0]))
        )
        rows.index_fill_(0, torch.tensor([1]), 0)
        y = torch.empty_like(x).copy_(x).clone().to(torch.bfloat16).to(torch.float32)
        y.add_(x).mul_(0.5)
        torch.zeros_like(y).reshape(3, 4).permute(1, 0).reshape(-1).contiguous()
        torch.stack([x, y]).sum(0).expand(2, 12).clone()

    assert inspect(step).matmuls == 0


def test_a_storage_may_go_while_the_others_are_asked_for_their_size() -> None:
    held, first, second = _Held(), [torch.zeros(4)], torch.zeros(8)
    which = first[0].untyped_storage()._cdata
    held.see(first[0])
    held._storages[which] = first.clear  # as where asking lets the last name of it go
    held.see(second)
    assert held.peak == 32
