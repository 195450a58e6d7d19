"""How numbers that were measured are written: three figures, never an exponent."""

from decimal import Decimal


def figures(value: float) -> str:
    """`1,080` of 1084.2, `12.3`, `4`, `0.00123`."""
    return f"{Decimal(f'{value:.3g}'):,f}"
