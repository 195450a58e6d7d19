"""The calls of one training step of each script of examples/scripts, written by hand.

An example is a function of a rank and the number of ranks. `after` names, by their positions, the calls of the step
whose results the call's input was made from. What another call passed on already is named where it also comes by a
way of its own, such as a residual.
"""

from collections.abc import Callable
from typing import NamedTuple


class Call(NamedTuple):
    """A row of `captured_calls`, as far as a script decides it.

    `given` and `taken`: bytes of inputs and outputs. `code`: the script's line. `at`: the root, or the peer.
    """

    kind: str
    dtype: str
    given: int
    taken: int
    code: str
    part: str = ""
    after: tuple[int, ...] = ()
    reduction: str = ""
    at: int | None = None


def summed(dtype: str, size: int, code: str, part: str = "", after: tuple[int, ...] = ()) -> Call:
    return Call("all_reduce", dtype, size, size, code, part, after, "sum")


BACKWARD = "loss.backward()"
F32 = "float32"


def ddp(rank: int, ranks: int) -> list[Call]:
    forward = "loss = criterion(model(images), labels)"
    statistics = 2 * (32 + 64)  # running mean and variance of both BatchNorms
    classifier = 10 + 10 * 128 + 128 + 128 * 1024  # the second last weight is more than a bucket holds
    second, first = 2 * 64 + 64 * 32 * 9, 2 * 32 + 32 * 3 * 9  # a BatchNorm and the convolution before it
    return [
        summed(F32, 4, "dist.all_reduce(average)"),  # of the step before, whose optimizer was done
        Call("broadcast", F32, 4 * statistics, 4 * statistics, forward, "DDP", at=0),
        Call("broadcast", "int64", 2 * 8, 2 * 8, forward, "DDP", at=0),  # num_batches_tracked
        *(
            summed(F32, 4 * size, BACKWARD, "backward", (1,)) for size in (classifier, second, first)
        ),  # BatchNorm
        # reads its statistics to update them
    ]


def fsdp2(rank: int, ranks: int) -> list[Call]:
    block = 4 * (4 * 64 + 12 * 64 * 64)  # two LayerNorms; qkv 3, proj 1, up 4, down 4 squares
    root = 4 * (64 * 64 + 2 * 64 + 64 * 64)  # embed, norm, head

    def gathered(size: int, code: str, part: str) -> Call:
        return Call("all_gather", F32, size // ranks, size, code, part)

    def scattered(size: int, part: str, after: tuple[int, ...]) -> Call:
        return Call("reduce_scatter", F32, size, size // ranks, BACKWARD, part, after, "avg")

    return [
        gathered(root, "logits = model(tokens[:, :-1])", "FSDP"),
        *(gathered(block, "x = block(x)", f"FSDP blocks.{layer}") for layer in range(3)),
        gathered(block, BACKWARD, "FSDP blocks.2"),  # 4: the root asks for it before its backward pass
        gathered(block, BACKWARD, "FSDP blocks.1"),  # 5: ahead of time, for it to overlap with block 2
        scattered(block, "FSDP blocks.2", (0, 1, 2, 3, 4)),
        gathered(block, BACKWARD, "FSDP blocks.0"),  # 7
        scattered(block, "FSDP blocks.1", (0, 1, 2, 3, 4, 5)),
        scattered(block, "FSDP blocks.0", (0, 1, 2, 3, 4, 5, 7)),
        scattered(root, "FSDP", (0, 1, 2, 3, 4, 5, 7)),
        summed(
            F32,
            4 * (3 * 8 + 4),  # the norm of each parameter's gradient
            "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)",
            "DTensor",
            (6, 8, 9, 10),
        ),
    ]


def tensor_parallel(rank: int, ranks: int) -> list[Call]:
    size = 4 * 8 * 32 * 64
    forward = [summed(F32, size, "dist.all_reduce(x)", after=tuple(range(at))) for at in range(4)]
    return forward + [
        summed(F32, size, "dist.all_reduce(gradient)", after=tuple(range(at))) for at in range(4, 8)
    ]


def dtensor(rank: int, ranks: int) -> list[Call]:
    full = 4 * 8 * 32 * 64  # activations; the logits too, since there are 64 tokens
    attention = "x = x + self.attention(self.attention_norm(x))"
    out = "return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))"
    mlp, mlp_out = (
        "return x + self.feed_forward(self.ffn_norm(x))",
        "return self.w2(F.gelu(self.w1(x)))",
    )
    logits = "return self.output(self.norm(x))"

    def gathered(code: str, *after: int) -> Call:
        return Call("all_gather", F32, full // ranks, full, code, "DTensor", after)

    def scattered(code: str, *after: int) -> Call:
        return Call("reduce_scatter", F32, full, full // ranks, code, "DTensor", after, "sum")

    calls = [
        scattered("x = self.embed(tokens)"),
        gathered(attention, 0),
        scattered(out, 1),
        gathered(mlp, 0, 2),
        scattered(mlp_out, 3),
        gathered(attention, 0, 2, 4),  # 5: the second layer
        scattered(out, 5),
        gathered(mlp, 0, 2, 4, 6),
        scattered(mlp_out, 7),
        gathered(logits, 0, 2, 4, 6, 8),
        gathered(logits, 9),  # 10: the logits themselves. Their gradient is on all ranks already
        scattered(BACKWARD, 10),
        gathered(BACKWARD, 0, 2, 4, 6, 8, 11),
        scattered(BACKWARD, 7, 12),
        gathered(BACKWARD, 0, 2, 4, 6, 8, 11, 13),
        scattered(BACKWARD, 5, 14),
        gathered(BACKWARD, 0, 2, 4, 6, 8, 11, 13, 15),  # 16: the first layer
        scattered(BACKWARD, 3, 16),
        gathered(BACKWARD, 0, 2, 4, 6, 8, 11, 13, 15, 17),
        scattered(BACKWARD, 1, 18),
        gathered(BACKWARD, 0, 2, 4, 6, 8, 11, 13, 15, 17, 19),
    ]
    norms = [(0, 19), (0, 2, 17), (0, 2, 4, 15), (0, 2, 4, 6, 13), (0, 2, 4, 6, 8, 11)]
    for after in norms:  # gradients of LayerNorms are partial sums, which AdamW reads three times
        calls += [summed(F32, 4 * 64, "optimizer.step()", "DTensor", after) for _ in range(2 * 3)]
    return calls


def pipeline(rank: int, ranks: int) -> list[Call]:
    size = 4 * 8 * 64  # of a microbatch
    code = "schedule.step()"
    if rank == 0:
        code = "schedule.step(inputs)"
    elif rank == ranks - 1:
        code = "schedule.step(target=targets, losses=losses)"
    # F: activations, B: their gradients; < from the stage before, > to the stage after
    orders = {
        (0, 2): ">F >F <B >F <B >F <B <B",
        (1, 2): "<F >B <F >B <F >B <F >B",
        (0, 4): ">F >F >F >F <B <B <B <B",
        (1, 4): "<F >F <F >F <F >F <B >B <F >F <B >B <B >B <B >B",
        (2, 4): "<F >F <F >F <B >B <F >F <B >B <F >F <B >B <B >B",
        (3, 4): "<F >B <F >B <F >B <F >B",
    }
    after = {
        (1, 2): {1: (0,), 3: (2,), 5: (4,), 7: (6,)},
        (1, 4): {1: (0,), 3: (2,), 5: (4,), 7: (0, 6), 9: (8,), 11: (2, 10), 13: (4, 12), 15: (8, 14)},
        (2, 4): {1: (0,), 3: (2,), 5: (0, 4), 7: (6,), 9: (2, 8), 11: (10,), 13: (6, 12), 15: (10, 14)},
        (3, 4): {1: (0,), 3: (2,), 5: (4,), 7: (6,)},
    }.get((rank, ranks), {})
    calls = []
    for at, (way, what) in enumerate(orders[rank, ranks].split()):
        peer = rank + (1 if (way == ">") == (what == "F") else -1)
        given, taken = (size, 0) if way == ">" else (0, size)
        kind = "send" if way == ">" else "recv"
        calls.append(Call(kind, F32, given, taken, code, "pipeline", after.get(at, ()), at=peer))
    return calls


def moe(rank: int, ranks: int) -> list[Call]:
    """Bytes of tokens from others are -1: they are what the router says."""
    mine = 4 * 64 * (256 // ranks)
    forward = "dist.all_to_all_single(received, x, take, give)"
    backward = "dist.all_to_all_single(returned, gradient.contiguous(), ctx.give, ctx.take)"
    gradients = [  # of the parameters that all ranks have
        (64 * 64, (0, 2, 4)), (64, (0, 2, 4)),  # the layer before: by the residual, and by the experts
        (4 * 64, (0, 2)), (4, (0, 2)),  # the router
        (64, (0, 2)), (64, (0, 2)), (16 * 64, (0, 2)), (16, (0, 2)),
    ]  # fmt: skip
    return [
        Call("all_to_all", "int64", 4 * 8, 4 * 8, "dist.all_to_all_single(received, counts)"),
        Call("all_to_all", F32, mine, -1, forward, after=(0,)),  # the script reads the counts
        Call("all_to_all", F32, -1, mine, forward, after=(0, 1)),
        Call("all_to_all", F32, mine, -1, backward, after=(0, 2)),
        Call("all_to_all", F32, -1, mine, backward, after=(0, 1, 3)),
        *(summed(F32, 4 * size, "dist.all_reduce(parameter.grad)", after=after) for size, after in gradients),
    ]


def ring_attention(rank: int, ranks: int) -> list[Call]:
    size = 2 * 4 * 8 * 64 * 64 // ranks
    code = "for work in dist.batch_isend_irecv([send, recv]):"
    calls: list[Call] = []

    def passed_on(*after: int) -> int:
        """Add a send and a receipt, and return the position of the receipt."""
        calls.append(Call("send", F32, size, 0, code, after=tuple(sorted(after)), at=(rank + 1) % ranks))
        calls.append(Call("recv", F32, 0, size, code, at=(rank - 1) % ranks))
        return len(calls) - 1

    def forward(made: list[int]) -> list[int]:
        """Of keys and values made from these calls: the calls that the output is made from."""
        received = [passed_on(*made)]
        while len(received) < ranks - 1:
            received.append(passed_on(received[-1]))
        return made + received

    def backward(made: list[int], gradient: list[int]) -> list[int]:
        """The calls that the gradient of the block's input is made from."""
        kv, d_kv, used = made, list[int](), gradient
        for step in range(ranks):
            d_kv = sorted({*d_kv, *gradient, *kv})
            if step < ranks - 1:
                kv = [passed_on(*kv)]
            d_kv = [passed_on(*d_kv)]
            used = sorted({*used, *kv}) if step < ranks - 1 else used
            ...
        return sorted({*used, *d_kv})

    first = forward([])
    second = forward(first)
    gradient = backward(first, second)
    gradient = backward([], gradient)
    block = 4 * 64 + 12 * 64 * 64 + 4 * 64 + 64
    parameters = 16 * 64 + 2 * block + 2 * 64 + 64 * 16 + 16
    return [*calls, summed(F32, 4 * parameters, "dist.all_reduce(flat)", after=tuple(gradient))]


def zero1(rank: int, ranks: int) -> list[Call]:
    last = 64 + 64 * 256 + 256 + 256 * 256  # the two last layers; the second last weight fills the bucket
    first = 256 + 64 * 256
    owned = {  # largest first, each to the rank with least: elements, bucket
        2: [[(65536, 0)], [(16384, 1), (16384, 0), (256, 1), (256, 0), (64, 0)]],
        4: [[(65536, 0)], [(16384, 1)], [(16384, 0)], [(256, 1), (256, 0), (64, 0)]],
    }[ranks]
    calls = [summed(F32, 4 * size, BACKWARD, "backward") for size in (last, first)]
    for owner, parameters in enumerate(owned):
        for size, bucket in parameters:
            after = (bucket,) if owner == rank else ()
            calls.append(
                Call("broadcast", F32, 4 * size, 4 * size, "optimizer.step()", "ZeRO", after, at=owner)
            )
    return calls


EXAMPLES: dict[str, Callable[[int, int], list[Call]]] = {
    example.__name__: example
    for example in (ddp, fsdp2, tensor_parallel, dtensor, pipeline, moe, ring_attention, zero1)
}
"""Name of the script -> its calls."""
