"""The parts of torch that make calls for a script, by the files that they are in. Needs no torch."""

PARTS = (
    ("distributed/fsdp/", "FSDP"),
    ("nn/parallel/distributed.py", "DDP"),
    ("distributed/tensor/", "DTensor"),
    ("distributed/pipelining/", "pipeline"),
    ("distributed/optim/", "ZeRO"),
)
"""Files of torch -> the name that people know them by."""
BACKWARD = "backward"
WRAPPERS = "typing_extensions.py"
"""The file that torch's deprecated functions are wrapped by: no line of a script."""


def part_of(inside: str, inner: str) -> str:
    """Return the part that a frame is in; empty if it is in none, `backward` if C++ calls from a backward pass.

    Args:
        inside: The frame's file, below torch's folder.
        inner: That of the innermost frame of torch.
    """
    named = next((name for path, name in PARTS if inside.startswith(path)), "")
    return named or (BACKWARD if inside == inner == "autograd/graph.py" else "")
