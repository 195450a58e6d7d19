"""A Llama-like transformer: the shapes of its parameters."""

Shape = tuple[int, ...]


def parameter_sizes(
    *, width: int, hidden: int, layers: int, vocabulary: int
) -> tuple[tuple[str, Shape], ...]:
    """(name, shape) of every parameter, in the order of the forward pass.

    Touvron et al. 2023: RMSNorm before each half of a block, rotary attention without biases (as many key
    heads as query heads), SwiGLU of `hidden` channels, a final norm, a head that is not the embedding.
    """
    for name, value in (("width", width), ("hidden", hidden), ("layers", layers), ("vocabulary", vocabulary)):
        if value < 1:
            raise ValueError(f"a Llama-like model needs a positive {name} (got {value})")
    blocks = [
        (f"blocks.{layer}.{name}", shape)
        for layer in range(layers)
        for name, shape in (
            ("attention_norm", (width,)),
            ("query", (width, width)),
            ("key", (width, width)),
            ("value", (width, width)),
            ("output", (width, width)),
            ("mlp_norm", (width,)),
            ("gate", (hidden, width)),
            ("up", (hidden, width)),
            ("down", (width, hidden)),
        )
    ]
    return (
        ("embedding", (vocabulary, width)),
        *blocks,
        ("norm", (width,)),
        ("head", (vocabulary, width)),
    )
