"""Whose fault a wrong deployed file is: the printer's, if the emitted module of the same Program is right."""

from collections.abc import Mapping, Sequence
from typing import Any

from overlayccl_core.configuration.models import label
from overlayccl_core.gates.training import wrong_gradients
from overlayccl_core.measuring.arms import ArmName
from overlayccl_core.program.numerics import NumericsClass

Row = Mapping[str, Any]


def fault_in_step(row: Row, beside: Sequence[Row], numerics: NumericsClass) -> str:
    """Return how the deployed files failed in a step, or gave wrong gradients, and why; empty: they did not.

    beside: rows of the same model.
    """
    wrong = _wrong(row, numerics)
    if row["arm"] != ArmName.DEPLOYED or not wrong:
        return ""
    right = any(
        _programs(one) == _programs(row) and not _wrong(one, numerics)
        for one in beside
        if one["microbatches"] == row["microbatches"] and one["arm"] != ArmName.DEPLOYED
    )
    return f"{label(row['model'], row['microbatches'])}: {wrong}: {fault(emitted_right=right)}"


def _wrong(row: Row, numerics: NumericsClass) -> str:
    error = row["gradient_rel_error"]
    return row["message"] or ("" if error is None else wrong_gradients(error, numerics))


def _programs(row: Row) -> dict[str, str]:
    return {site: stamp["program"] for site, stamp in row["stamps"].items()}


def fault(*, emitted_right: bool) -> str:
    """Say who has to mend a wrong file, by the emitted module of the same Program."""
    if emitted_right:
        return (
            "the emitted module of the same Program is right here, so OverlayCCL prints the file wrongly (emit/), "
            "and the library is not at fault: report it. Nothing of it is published: deploy/ is as it was before"
        )
    return (
        "the emitted module of the same Program is not right here either: look at what the backend emits, or try "
        "another version of the library"
    )
