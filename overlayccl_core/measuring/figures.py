"""How numbers that were measured are written: three figures, never an exponent."""

from decimal import Decimal


def figures(value: float, digits: int = 3) -> str:
    """`1,080` of 1084.2, `12.3`, `4`, `0.00123`."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"
