"""Format of measured numbers: three figures, never an exponent."""

from decimal import Decimal


def figures(value: float, digits: int = 3) -> str:
    """Return `1,080` for 1084.2; `12.3`, `4`, `0.00123`."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"
