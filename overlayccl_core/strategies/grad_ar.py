"""Known ways of averaging gradients over ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_reduce,
    concat,
    flatten,
    not_applicable,
    reduce_scatter,
    reshape,
    scale,
    slice_axis,
    split,
)
from overlayccl_core.strategies.ways import buffers, lossy_sums, sums

MIB = 1048576


def ddp_1_then_25_mib(io, p):
    """torch's DistributedDataParallel by default: an all_reduce a bucket, the last tensor's first. The tensor that
    reaches 25 MiB closes a bucket, the one that reaches 1 MiB the first."""
    _ddp(io, p, [1, 25])


def ddp_1_mib(io, p):
    """The same with bucket_cap_mb=1."""
    _ddp(io, p, [1])


def ddp_4_mib(io, p):
    """The same with bucket_cap_mb=4."""
    _ddp(io, p, [4])


def ddp_25_mib(io, p):
    """The same with bucket_cap_mb=25, written out: then the first bucket has this cap, too."""
    _ddp(io, p, [25])


def ddp_1_4_16_mib(io, p):
    """The same with bucket_cap_mb_list=[1, 4, 16]: a small bucket starts soon, a large one saves calls."""
    _ddp(io, p, [1, 4, 16])


def one_by_one(io, p):
    """One all_reduce per tensor, then its scale."""
    for i in p.tensor_order:
        io.write("mean", i, scale(all_reduce(io.read("gradient", i), "sum"), 1, p.world_size))


def reduce_back_to_back(io, p):
    """All reduces first, so that they are in flight together; the scales later."""
    sums = [all_reduce(io.read("gradient", i), "sum") for i in p.tensor_order]
    for i, total in zip(p.tensor_order, sums, strict=True):
        io.write("mean", i, scale(total, 1, p.world_size))


def flat(io, p):
    """One all_reduce of one buffer that holds all gradients."""
    _means(io, p, buffers.reduced)


def buckets_32_mib(io, p):
    """Buckets of at most 32 MiB."""
    _bucketed(io, p, _greedy(p.sizes, 32 * MIB // p.element_bytes, p.tensor_order))


def buckets_64_mib(io, p):
    """Buckets of at most 64 MiB."""
    _bucketed(io, p, _greedy(p.sizes, 64 * MIB // p.element_bytes, p.tensor_order))


def coalesced_50_mib_reversed(io, p):
    """Lists of at most 50 MiB, the last tensor's first: torch-xla's reduce_gradients as torch-neuronx sets it
    (ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB)."""
    _needs_more_than(p, 50 * MIB)
    _in_lists(io, p, _greedy(p.sizes, 50 * MIB // p.element_bytes, _last_first(p)))


def coalesced_512_mib_reversed(io, p):
    """Lists of at most 512 MiB, the last tensor's first, as NeuronX-Distributed has them."""
    _needs_more_than(p, 512 * MIB)
    _in_lists(io, p, _greedy(p.sizes, 512 * MIB // p.element_bytes, _last_first(p)))


def zero_1_buckets_130_mib(io, p):
    """ZeRO stage 1 of NeuronX-Distributed: each rank has a share of every tensor. Sums are scattered in buckets of
    at most 130 MiB, and gathered in buckets of which a rank gives 130 MiB over the ranks, but a MiB at least."""
    _needs_more_than(p, 130 * MIB)
    n, mib, order = p.world_size, MIB // p.element_bytes, p.tensor_order
    widths = [(size + n - 1) // n for size in p.sizes]  # of the shares
    shares = []
    for bucket in _greedy([n * width for width in widths], 130 * mib, order):
        rows = [reshape(buffers.padded(io.read("gradient", i), n), (n, -1)) for i in bucket]
        shares += split(scale(reduce_scatter(concat(rows, 1)), 1, n), [widths[i] for i in bucket], 1)
    given = [widths[i] for i in order]
    for places in _greedy(given, max(130 // n, 1) * mib, [place for place in range(len(order))]):
        means = all_gather(concat([shares[k] for k in places], 1))
        for k, mean in zip(places, split(means, [given[k] for k in places], 1), strict=True):
            io.write("mean", order[k], slice_axis(flatten(mean), 0, 0, p.sizes[order[k]]))


def _needs_more_than(p, limit):
    """What fits one bucket is `coalesced`, or `reduce_scatter_all_gather`."""
    if sum([p.sizes[i] for i in p.tensor_order]) * p.element_bytes <= limit:
        not_applicable("all gradients fit one bucket")


def _means(io, p, way):
    """All gradients, by a way of summing."""
    totals = way([io.read("gradient", i) for i in p.tensor_order], p)
    for i, total in zip(p.tensor_order, totals, strict=True):
        io.write("mean", i, scale(total, 1, p.world_size))


def _ddp(io, p, caps_mib):
    """Buckets as torch's compute_bucket_assignment_by_size (reducer.cpp) cuts them; the last cap goes on."""
    buckets, bucket, filled = [], [], 0
    for i in _last_first(p):
        bucket += [i]
        filled += p.sizes[i] * p.element_bytes
        if filled >= caps_mib[min(len(buckets), len(caps_mib) - 1)] * MIB:
            buckets += [bucket]
            bucket, filled = [], 0
    if bucket:
        buckets += [bucket]
    _bucketed(io, p, buckets)


def _bucketed(io, p, buckets):
    """An all_reduce of one buffer for each bucket, as soon as its gradients are there."""
    gradients, totals = [], []
    for bucket in buckets:
        values = [io.read("gradient", i) for i in bucket]
        gradients += [values]
        totals += [all_reduce(buffers.joined(values), "sum")]
    for bucket, values, total in zip(buckets, gradients, totals, strict=True):
        for i, mean in zip(bucket, buffers.apart(scale(total, 1, p.world_size), values), strict=True):
            io.write("mean", i, mean)


def _in_lists(io, p, buckets):
    """An all_reduce of the list of each bucket's tensors."""
    sums = [all_reduce([io.read("gradient", i) for i in bucket], "sum") for bucket in buckets]
    for bucket, totals in zip(buckets, sums, strict=True):
        for i, total in zip(bucket, totals, strict=True):
            io.write("mean", i, scale(total, 1, p.world_size))


def _last_first(p):
    """The tensors from the last on, which is how a backward pass gives them."""
    return [len(p.sizes) - 1 - i for i in range(len(p.sizes))]


def _greedy(sizes, limit, order):
    """The tensors in an order, cut where the next one would exceed `limit` elements; a larger one is alone."""
    starts, filled = [], 0
    for at, i in enumerate(order):
        if not starts or filled + sizes[i] > limit:
            starts += [at]
            filled = 0
        filled += sizes[i]
    ends = starts[1:]
    ends += [len(order)]
    return [order[a:b] for a, b in zip(starts, ends, strict=True)]


LIBRARY = Library(
    developer="ddp_1_then_25_mib",
    single_graph="reduce_back_to_back",
    hand_bundled="flat",
    others=(
        "one_by_one",
        "ddp_1_mib",
        "ddp_4_mib",
        "ddp_25_mib",
        "ddp_1_4_16_mib",
        "buckets_32_mib",
        "buckets_64_mib",
        "coalesced_50_mib_reversed",
        "coalesced_512_mib_reversed",
        "zero_1_buckets_130_mib",
    ),
    ways=((sums, _means), (lossy_sums, _means)),
)
