"""A line of a table on a screen."""


def line(name: str, *cells: str) -> str:
    """A name and its cells, each as wide as the one above it."""
    return f"  {name:16s}" + "".join(f"{cell:>12s}" for cell in cells)
