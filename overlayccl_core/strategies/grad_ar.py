"""Known ways of averaging gradients over ranks. Read, never executed."""

from overlayccl_core.program.language import (
    Library,
    all_gather,
    all_reduce,
    concat,
    flatten,
    not_applicable,
    pad,
    reduce_scatter,
    reshape,
    scale,
    slice_axis,
    split,
)

MIB = 1048576


def developer(io, p):
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
    total = all_reduce(_read(io, p.tensor_order), "sum")
    _write(io, p, p.tensor_order, scale(total, 1, p.world_size))


def buckets_25_mib(io, p):
    """Buckets of at most 25 MiB, as torch's DistributedDataParallel by default."""
    _bucketed(io, p, 25 * MIB)


def buckets_32_mib(io, p):
    """Buckets of at most 32 MiB."""
    _bucketed(io, p, 32 * MIB)


def buckets_64_mib(io, p):
    """Buckets of at most 64 MiB."""
    _bucketed(io, p, 64 * MIB)


def coalesced(io, p):
    """One all_reduce of the list of all gradients, without a buffer, as torch-xla has them without buckets."""
    _in_lists(io, p, [p.tensor_order])


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
        rows = [reshape(_padded(io.read("gradient", i), n), (n, -1)) for i in bucket]
        shares += split(scale(reduce_scatter(concat(rows, 1)), 1, n), [widths[i] for i in bucket], 1)
    given = [widths[i] for i in order]
    for places in _greedy(given, max(130 // n, 1) * mib, [place for place in range(len(order))]):
        means = all_gather(concat([shares[k] for k in places], 1))
        for k, mean in zip(places, split(means, [given[k] for k in places], 1), strict=True):
            io.write("mean", order[k], slice_axis(flatten(mean), 0, 0, p.sizes[order[k]]))


def hierarchical(io, p):
    """Scatter the sums over the ranks of a node, sum the shares across nodes, gather within the node."""
    if p.ranks_per_node == p.world_size:
        not_applicable("one tier")
    size, n = p.ranks_per_node, p.world_size
    within = [range(first, first + size) for first in range(0, n, size)]
    across = [range(place, n, size) for place in range(size)]
    gradients = _padded(_read(io, p.tensor_order), size)
    share = all_reduce(reduce_scatter(gradients, 0, within), "sum", across)
    _write(io, p, p.tensor_order, all_gather(scale(share, 1, p.world_size), 0, within))


def reduce_scatter_all_gather(io, p):
    """Each rank averages its share, then all gather: the communication of ZeRO stage 1."""
    share = reduce_scatter(_padded(_read(io, p.tensor_order), p.world_size))
    _write(io, p, p.tensor_order, all_gather(scale(share, 1, p.world_size)))


def _needs_more_than(p, limit):
    """What fits one bucket is `coalesced`, or `reduce_scatter_all_gather`."""
    if sum([p.sizes[i] for i in p.tensor_order]) * p.element_bytes <= limit:
        not_applicable("all gradients fit one bucket")


def _bucketed(io, p, limit):
    """Fill buckets in the order in which gradients come; reduce each as soon as it is full."""
    buckets = _greedy(p.sizes, limit // p.element_bytes, p.tensor_order)
    sums = [all_reduce(_read(io, bucket), "sum") for bucket in buckets]
    for bucket, total in zip(buckets, sums, strict=True):
        _write(io, p, bucket, scale(total, 1, p.world_size))


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


def _read(io, tensors):
    """Some gradients in one buffer."""
    return concat([io.read("gradient", i) for i in tensors])


def _write(io, p, tensors, means):
    """Hand out what `_read` joined; padding behind it is dropped."""
    sizes = [p.sizes[i] for i in tensors]
    for i, mean in zip(tensors, split(slice_axis(means, 0, 0, sum(sizes)), sizes), strict=True):
        io.write("mean", i, mean)


def _padded(x, parts):
    """Zeros behind x, up to a multiple of `parts`."""
    size = x.shape[0]
    return pad(x, 0, 0, (size + parts - 1) // parts * parts)


LIBRARY = Library(
    developer="developer",
    single_graph="reduce_back_to_back",
    hand_bundled="flat",
    others=(
        "buckets_25_mib",
        "buckets_32_mib",
        "buckets_64_mib",
        "coalesced",
        "coalesced_50_mib_reversed",
        "coalesced_512_mib_reversed",
        "zero_1_buckets_130_mib",
        "hierarchical",
        "reduce_scatter_all_gather",
    ),
)
