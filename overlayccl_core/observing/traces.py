"""Traces of torch.profiler (Kineto, JSON): calls with sizes and times, without their dependencies.

An event `c10d::<call>` is the call, on the thread that makes it. Inside it stands `record_param_comms`, where the
library tells it (NCCL: dtype, group). Gloo has an event `gloo:<call>` on the thread that moves the data. NCCL has
an event `nccl:<call>` inside the call, as long as the launch takes, and one with its "External id" on the GPU.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from overlayccl_core.observing.seen import (
    SeenCall,
    SeenRank,
    SeenStep,
    dtype_of,
    elements,
    kind_of,
    origin_of,
)
from overlayccl_core.tables.captured import CaptureSource

Event = Mapping[str, Any]
FRAME = re.compile(r"(.+)\((\d+)\): ")
MOVES, LAUNCHES = "gloo:", "nccl:"
ON_GPU, ID = "gpu_user_annotation", "External id"
STEP, OPTIMIZER = "ProfilerStep#", "Optimizer.step#"


class Arguments(NamedTuple):
    """Where an operation has its outputs, inputs, and the rank that is its root or peer."""

    outputs: int | None
    inputs: int | None
    rank: int | None = None


class Around(NamedTuple):
    """What stands around a call, and in it.

    Attributes:
        frames: (file, line) of its Python frames, the innermost first.
        comm: What `record_param_comms` tells.
        launch: NCCL's event, empty if there is none.
    """

    frames: list[tuple[str, int]]
    comm: Event
    launch: Event


IN_PLACE = Arguments(0, 0)
ARGUMENTS = {
    **dict.fromkeys(("allreduce_", "allreduce_coalesced_"), IN_PLACE),
    **{"broadcast_": Arguments(0, 0, 2), "reduce_": Arguments(0, 0, 3)},
    **{"gather_": Arguments(0, 1, 3), "scatter_": Arguments(0, 1, 3)},
    **{"send": Arguments(None, 0, 2), "recv_": Arguments(0, None, 2), "recv_any_source_": Arguments(0, None)},
    "barrier": Arguments(None, None),
}
"""Operation of c10d -> its arguments; of all others the outputs are the first, the inputs the second."""
SPLITS = "alltoall_base_"  # its arguments 3 and 4 are the splits of outputs and inputs


def read_trace(trace: Mapping[str, Any], file: object) -> SeenRank:
    """Return what a trace tells of its rank.

    Raises:
        ValueError: It is of no distributed job, or has no shapes.
    """
    about = trace.get("distributedInfo")
    if not about:
        raise ValueError(f"{file}: a trace of one process alone: profile after init_process_group")
    events = [one for one in trace["traceEvents"] if one.get("ph") == "X" and "dur" in one]
    calls = sorted((one for one in events if one["name"].startswith("c10d::")), key=_begin)
    if calls and not any("Input Dims" in one.get("args", {}) for one in calls):
        raise ValueError(f"{file}: a trace without sizes: profile with record_shapes=True")
    groups = {str(one["pg_name"]): _ranks(one.get("ranks")) for one in about.get("pg_config", ())}
    around = _around(events, calls)
    told = sorted((one for one in events if one["name"].startswith(MOVES) and _kind(one)), key=_begin)
    on_gpu = {one["args"][ID]: one for one in events if one.get("cat") == ON_GPU and _is_launch(one)}
    seen = [_seen(one, around[id(one)], groups, told, on_gpu) for one in calls]
    return SeenRank(
        source=CaptureSource.PROFILER,
        rank=about["rank"],
        world_size=about["world_size"],
        groups=groups,
        steps=list(_steps(events, [one for one in seen if one is not None])),
    )


def _seen(
    event: Event, around: Around, groups: dict[str, list[int]], told: list[Event], on_gpu: Mapping[int, Event]
) -> SeenCall | None:
    name, kind = event["name"].removeprefix("c10d::"), _kind(event)
    if kind is None:
        return None
    where, args = ARGUMENTS.get(name, Arguments(0, 1)), event.get("args", {})
    outputs, inputs = (_shapes(args, position) for position in where[:2])
    comm, launch, (line, part) = around.comm, around.launch, origin_of(around.frames)
    group = str(comm.get("Process Group Name", next(iter(groups)) if len(groups) == 1 else ""))
    if kind in ("all_gather", "reduce_scatter", "scatter"):  # a trace leaves lists of lists out
        inputs = inputs or outputs * len(groups.get(group, ()))
        outputs = outputs or inputs * len(groups.get(group, ()))
    library = _taken(told, event, kind, {elements(inputs), elements(outputs)})
    end = on_gpu.get(launch["args"][ID]) if launch else library
    types = [one for one in (library or {}).get("args", {}).get("Input type", ()) if one]
    rank = _concrete(args, where.rank)
    is_peer = kind in ("send", "recv")
    return SeenCall(
        kind=kind,
        dtype=dtype_of(comm.get("dtype") or next(iter(types), "")),
        device="cuda" if launch else None,
        inputs=inputs,
        outputs=outputs,
        group=group,
        line=line,
        part=part,
        issued=event["ts"],
        call_us=None if launch else event["dur"],
        done=None if end is None else end["ts"] + end["dur"],
        root=None if is_peer else rank,
        peer=rank if is_peer else None,
        output_splits=_concrete(args, 3) if name == SPLITS else None,
        input_splits=_concrete(args, 4) if name == SPLITS else None,
    )


def _taken(told: list[Event], call: Event, kind: str, sizes: set[int]) -> Event | None:
    """Take gloo's event of a call: the next of its kind and size. Gloo scatters by all_reduce."""
    names = {kind, "all_reduce"} if kind == "reduce_scatter" else {kind}
    for at, one in enumerate(told):
        if one["ts"] >= call["ts"] and _kind(one) in names and sizes & {_size(one)}:
            return told.pop(at)
    return None


def _size(event: Event) -> int:
    return elements(event.get("args", {}).get("Input Dims", ()))


def _around(events: Sequence[Event], calls: Sequence[Event]) -> dict[int, Around]:
    """Return by call what stands around it, and in it."""
    frames: dict[int, list[tuple[str, int]]] = {}
    comms: dict[int, Event] = {}
    launches: dict[int, Event] = {}
    ours = {id(one) for one in calls}
    stacks: dict[object, list[Event]] = {}
    for event in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
        stack = stacks.setdefault(event.get("tid"), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        inside = [id(one) for one in stack if id(one) in ours]
        if event["name"] == "record_param_comms":
            comms |= {one: event.get("args", {}) for one in inside}
        elif event.get("cat") != ON_GPU and _is_launch(event):
            launches |= {one: event for one in inside}
        elif id(event) in ours or event.get("cat") == "python_function":
            if id(event) in ours:
                found = (FRAME.match(one["name"]) for one in reversed(stack))
                frames[id(event)] = [(one[1], int(one[2])) for one in found if one]
            stack.append(event)
    return {one: Around(frames.get(one, []), comms.get(one, {}), launches.get(one, {})) for one in ours}


def _steps(events: Sequence[Event], calls: Sequence[SeenCall]) -> Iterator[SeenStep]:
    """Yield the steps: those of the profiler's schedule, else from one end of the optimizer's step to the next."""
    marks = sorted((one for one in events if one.get("cat") == "user_annotation"), key=_begin)
    spans = [(one["ts"], one["ts"] + one["dur"]) for one in marks if one["name"].startswith(STEP)]
    if not spans:
        optimizer = next((one["name"] for one in marks if one["name"].startswith(OPTIMIZER)), "")
        ends = [one["ts"] + one["dur"] for one in marks if one["name"] == optimizer]
        spans = list(pairwise(ends))
    if not spans and calls:
        yield SeenStep(begin=calls[0].issued, step_us=None, calls=calls)
    for begin, end in spans:
        yield SeenStep(
            begin=begin, step_us=end - begin, calls=[one for one in calls if begin <= one.issued < end]
        )


def _is_launch(event: Event) -> bool:
    return event["name"].startswith(LAUNCHES) and ID in event.get("args", {})


def _begin(event: Event) -> float:
    return float(event["ts"])


def _kind(event: Event) -> str | None:
    return kind_of(event["name"].rpartition(":")[2])


def _ranks(ranks: Any) -> list[int]:
    return list(json.loads(ranks) if isinstance(ranks, str) else ranks or ())


def _shapes(args: Event, position: int | None) -> list[list[int]]:
    """Return the shapes of a tensor or of a list of tensors; none of lists of lists, which a trace leaves out."""
    shapes = args.get("Input Dims", ())
    types = args.get("Input type", ())
    if position is None or position >= len(shapes) or not types[position]:
        return []
    return list(shapes[position]) if types[position] == "TensorList" else [shapes[position]]


def _concrete(args: Event, position: int | None) -> Any:
    values = args.get("Concrete Inputs", ())
    return json.loads(values[position] or "null") if position is not None and position < len(values) else None
