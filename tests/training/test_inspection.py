"""What is counted of a step while it runs."""

import torch

from overlayccl_core.training.inspection import inspect

ELEMENTS = 1000
BYTES = 4 * ELEMENTS


def test_the_peak_is_the_most_that_was_held_at_a_time_not_what_was_held_last() -> None:
    x = torch.ones(ELEMENTS, requires_grad=True)

    def step() -> None:
        squares = [x.tanh() for _ in range(3)]  # each saves what it gives
        del squares[0]
        total = sum(one.sum() for one in squares)
        total.backward()
        del total, squares
        x.tanh().sum().backward()

    assert inspect(step).peak_activation_bytes == 3 * BYTES


def test_views_of_one_storage_are_held_once_and_what_backward_let_go_does_not_count() -> None:
    x = torch.ones(ELEMENTS, requires_grad=True)

    def step() -> None:
        for _ in range(4):
            y = x.sin()  # saves x
            (y[:500] * y[500:]).sum().backward()  # saves y twice

    assert inspect(step).peak_activation_bytes == 2 * BYTES


def test_matmuls_of_forward_and_backward_are_counted_and_told_apart_by_their_shapes() -> None:
    weight = torch.ones(4, 5, requires_grad=True)

    def step(rows: int) -> None:
        (torch.ones(rows, 4) @ weight).sum().backward()

    found = [inspect(lambda rows=rows: step(rows)) for rows in (2, 2, 3)]
    assert [one.matmuls for one in found] == [2, 2, 2]
    assert found[0].matmul_digest == found[1].matmul_digest != found[2].matmul_digest
