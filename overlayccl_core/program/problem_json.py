"""A Problem as plain data and back."""

from collections.abc import Mapping
from typing import Any

from overlayccl_core.program.case import Case, parameters
from overlayccl_core.program.kinds import DType, Placement
from overlayccl_core.program.nodes import Port
from overlayccl_core.program.problem import Direction, PortSpec, Problem, Segment


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """Plain data for `problem_from_json`."""
    return {
        "case": problem.case.to_json(),
        "direction": problem.direction.value,
        "inputs": [_spec_to_json(port, spec) for port, spec in problem.inputs.items()],
        "outputs": [_spec_to_json(port, spec) for port, spec in problem.outputs.items()],
        "segments": [
            {
                "name": list(s.name),
                "needs": _lists(s.needs),
                "gives": _lists(s.gives),
                "after": _lists(s.after),
            }
            for s in problem.segments
        ],
        "parameters": {k: list(v) if isinstance(v, tuple) else v for k, v in problem.parameters.items()},
        "linear": problem.linear,
        **({"arguments": _rows(problem.arguments, list)} if problem.arguments else {}),
    }


def problem_from_json(data: dict[str, Any]) -> Problem:
    """Return the Problem written by `problem_to_json`.

    Raises:
        ValueError: Its parts do not fit together.
    """
    return Problem(
        case=Case.from_json(data["case"]),
        direction=Direction(data["direction"]),
        inputs=dict(_spec_from_json(d) for d in data["inputs"]),
        outputs=dict(_spec_from_json(d) for d in data["outputs"]),
        segments=tuple(
            Segment(
                name=tuple(s["name"]),
                needs=_ports(s["needs"]),
                gives=_ports(s["gives"]),
                after=_ports(s["after"]),
            )
            for s in data["segments"]
        ),
        parameters=dict(parameters(data["parameters"])),
        linear=data["linear"],
        arguments=_rows(data.get("arguments", {}), tuple),
    )


def _spec_to_json(port: Port, spec: PortSpec) -> dict[str, Any]:
    return {
        "port": list(port),
        "shape": list(spec.shape),
        "dtype": spec.dtype.value,
        "placement": spec.placement.value,
        "cotangent": spec.cotangent.value,
        "valid": None if spec.valid is None else list(spec.valid),
        **({} if spec.within is None else {"within": list(spec.within)}),
        **({"saved": True} if spec.saved else {}),
    }


def _spec_from_json(data: dict[str, Any]) -> tuple[Port, PortSpec]:
    valid = data["valid"]
    spec = PortSpec(
        shape=tuple(data["shape"]),
        dtype=DType(data["dtype"]),
        placement=Placement(data["placement"]),
        cotangent=Placement(data["cotangent"]),
        valid=None if valid is None else tuple(valid),
        within=tuple(data["within"]) if "within" in data else None,
        saved=data.get("saved", False),
    )
    return tuple(data["port"]), spec


def _rows(arguments: Mapping[str, Any], kind: type[list[Any]] | type[tuple[Any, ...]]) -> dict[str, Any]:
    """Their rows as lists, or as tuples."""
    return {name: kind(kind(row) for row in rows) for name, rows in arguments.items()}


def _lists(ports: tuple[Port, ...]) -> list[list[str | int]]:
    return [list(p) for p in ports]


def _ports(data: list[list[str | int]]) -> tuple[Port, ...]:
    return tuple(tuple(p) for p in data)
