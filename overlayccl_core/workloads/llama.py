"""A Llama-like transformer: the shapes of its parameters, and what its ranks have to do together in a step."""

from math import prod

from overlayccl_core.configuration.models import Model, Parallelism, Site

Shape = tuple[int, ...]


def parameter_sizes(
    *, width: int, hidden: int, layers: int, vocabulary: int
) -> tuple[tuple[str, Shape], ...]:
    """(name, shape) of every parameter, in the order of the forward pass.

    Touvron et al. 2023: RMSNorm before each half of a block, rotary attention without biases (as many key
    heads as query heads), SwiGLU of `hidden` channels, a final norm, a head that is not the embedding. What
    multiplies the same input is one matrix, as in Megatron-LM: query, key and value; gate and up.
    """
    for name, value in (("width", width), ("hidden", hidden), ("layers", layers), ("vocabulary", vocabulary)):
        if value < 1:
            raise ValueError(f"a Llama-like model needs a positive {name} (got {value})")
    blocks = [
        (f"blocks.{layer}.{name}", shape)
        for layer in range(layers)
        for name, shape in (
            ("attention_norm", (width,)),
            ("query_key_value", (3 * width, width)),
            ("output", (width, width)),
            ("mlp_norm", (width,)),
            ("gate_up", (2 * hidden, width)),
            ("down", (width, hidden)),
        )
    ]
    return (
        ("embedding", (vocabulary, width)),
        *blocks,
        ("norm", (width,)),
        ("head", (vocabulary, width)),
    )


def check(model: Model, ranks: int) -> None:
    """ValueError where the model cannot be spread over so many ranks."""
    if model.parallelism is not Parallelism.TENSOR:
        return
    for what, count in (("heads", model.heads), ("hidden", model.hidden)):
        if count % ranks:
            raise ValueError(
                f"ranks must divide {what} of a tensor-parallel model (got {ranks} and {count}): leave the model "
                "out, or give it a file with other sizes"
            )


def sites(model: Model, microbatches: int) -> tuple[Site, ...]:
    """Tensor parallel: two sums a block and microbatch in each direction. Data parallel: one mean a parameter."""
    if model.parallelism is Parallelism.TENSOR:
        sums = {
            "microbatches": microbatches,
            "layers": 2 * model.layers,
            "shape": [model.batch, model.sequence, model.width],
        }
        return tuple(
            Site(name=place, problem="tp_mlp", entry={**sums, "site": place}) for place in ("entry", "exit")
        )
    parameters = parameter_sizes(
        width=model.width, hidden=model.hidden, layers=model.layers, vocabulary=model.vocabulary
    )
    entry = {"sizes": [prod(shape) for _, shape in parameters], "overlap": True}
    return (Site(name="gradients", problem="grad_ar", entry=entry),)
