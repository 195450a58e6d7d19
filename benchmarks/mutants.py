"""One mistake in a schedule of MSCCL (XML) or MSCCL++ (JSON), drawn at random, for a reader or a proof to catch."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

TRIES = 50
SOURCES = frozenset({"s", "rrc", "rrs", "rrcs", "re", "cpy"})  # operations that read srcbuf
DESTINATIONS = frozenset({"r", "rcs", "rrc", "rrcs", "re", "cpy"})  # and those that write dstbuf
COPIES = {"rrc": "r", "rrs": "rcs", "rrcs": "rcs", "re": "cpy"}
WAITS = frozenset({"signal", "wait", "rlxsignal", "rlxwait", "nop"})

Json = dict[str, Any]


def mutated(text: str, kind: str, random: Random) -> tuple[str, str] | None:
    """(the text with one mistake of this kind of MISTAKES, the mistake in words). None: it has no place for one."""
    in_xml, in_json = MISTAKES[kind]
    if text.lstrip()[:1] == "{":
        plan = json.loads(text)
        said = in_json(plan["gpus"], random)
        return None if said is None else (json.dumps(plan), said)
    root = ET.fromstring(text)
    said = in_xml(root, random)
    return None if said is None else (ET.tostring(root, encoding="unicode"), said)


def _dependency(root: ET.Element, random: Random) -> str | None:
    found = [one for one in _steps(root) if int(one[1].get("depid", "-1")) >= 0]
    if not found:
        return None
    where, step = random.choice(found)
    said = f"{where} ({step.get('type')}) no longer after step {step.get('deps')} of {step.get('depid')}"
    step.set("depid", "-1")
    step.set("deps", "-1")
    return said


def _swap(root: ET.Element, random: Random) -> str | None:
    blocks = [(where, block) for where, block in _blocks(root) if len(block) > 1]
    for _ in range(TRIES if blocks else 0):
        where, block = random.choice(blocks)
        first, second = _two(len(block), random)
        one, other = block[first], block[second]
        if {**one.attrib, "s": ""} == {**other.attrib, "s": ""}:
            continue
        for key in one.attrib.keys() - {"s"}:
            one.attrib[key], other.attrib[key] = other.attrib[key], one.attrib[key]
        return f"{where}: steps {first} ({other.get('type')}) and {second} ({one.get('type')}) swapped"
    return None


def _offset(root: ET.Element, random: Random) -> str | None:
    found = [
        (where, step, key)
        for where, step in _steps(root)
        for key, users in (("srcoff", SOURCES), ("dstoff", DESTINATIONS))
        if step.get("type") in users
    ]
    if not found:
        return None
    where, step, key = random.choice(found)
    old = int(step.get(key, "0"))
    new = old + _by_one(old, random)
    step.set(key, str(new))
    return f"{where} ({step.get('type')}): {key} {old} made {new}"


def _peer(root: ET.Element, random: Random) -> str | None:
    ranks = len(root.findall("gpu"))
    found = [(w, b, key) for w, b in _blocks(root) for key in ("send", "recv") if int(b.get(key, "-1")) >= 0]
    if not found:
        return None
    where, block, key = random.choice(found)
    old = int(block.get(key, "-1"))
    new = random.choice([rank for rank in range(ranks) if rank != old])
    block.set(key, str(new))
    return f"{where}: {key} {old} made {new}"


def _copy(root: ET.Element, random: Random) -> str | None:
    found = [one for one in _steps(root) if one[1].get("type") in COPIES]
    if not found:
        return None
    where, step = random.choice(found)
    old = step.get("type", "")
    step.set("type", COPIES[old])
    return f"{where}: {old} made {COPIES[old]}"


def _plan_dependency(gpus: list[Json], random: Random) -> str | None:
    found = [
        (w, b, at) for w, b in _plan_blocks(gpus) for at, op in enumerate(b["ops"]) if op["name"] in WAITS
    ]
    if not found:
        return None
    where, block, at = random.choice(found)
    return f"{where}: {block['ops'].pop(at)['name']} {at} left out"


def _plan_swap(gpus: list[Json], random: Random) -> str | None:
    blocks = [(where, block["ops"]) for where, block in _plan_blocks(gpus) if len(block["ops"]) > 1]
    for _ in range(TRIES if blocks else 0):
        where, ops = random.choice(blocks)
        first, second = _two(len(ops), random)
        if ops[first] == ops[second]:
            continue
        ops[first], ops[second] = ops[second], ops[first]
        return f"{where}: {ops[second]['name']} {first} and {ops[first]['name']} {second} swapped"
    return None


def _plan_offset(gpus: list[Json], random: Random) -> str | None:
    found = [
        (f"{where}: {op['name']} {at}", ref)
        for where, block in _plan_blocks(gpus)
        for at, outer in enumerate(block["ops"])
        for op in (outer, *outer.get("ops", ()))
        for key in ("src_buff", "dst_buff")
        for ref in op.get(key, ())
    ]
    where, ref = random.choice(found)
    old = ref["index"]
    ref["index"] = old + _by_one(old, random)
    return f"{where}: index {old} made {ref['index']}"


def _plan_peer(gpus: list[Json], random: Random) -> str | None:
    """With two ranks the other peer is a rank itself."""
    found = [(gpu["id"], buffer) for gpu in gpus for buffer in gpu["remote_buffers"]]
    if not found:
        return None
    rank, buffer = random.choice(found)
    old = buffer["rank"]
    buffer["rank"] = random.choice([one for one in range(len(gpus)) if one != old])
    return f"rank {rank}: a buffer {buffer['type']} of rank {old} made one of {buffer['rank']}"


def _plan_copy(gpus: list[Json], random: Random) -> str | None:
    found = [
        (where, at, op)
        for where, block in _plan_blocks(gpus)
        for at, op in enumerate(block["ops"])
        if "reduce_op" in op and len(op["src_buff"]) > 1
    ]
    if not found:
        return None
    where, at, op = random.choice(found)
    op["src_buff"].pop()
    return f"{where}: {op['name']} {at} without its last source"


Mutation = tuple[
    Callable[[ET.Element, Random], str | None],
    Callable[[list[Json], Random], str | None],
]
MISTAKES: dict[str, Mutation] = {
    "dependency dropped": (_dependency, _plan_dependency),
    "two steps swapped": (_swap, _plan_swap),
    "offset by one": (_offset, _plan_offset),
    "peer exchanged": (_peer, _plan_peer),
    "reduction a copy": (_copy, _plan_copy),
}


def _blocks(root: ET.Element) -> list[tuple[str, ET.Element]]:
    return [(f"rank {gpu.get('id')}, thread block {tb.get('id')}", tb) for gpu in root for tb in gpu]


def _steps(root: ET.Element) -> list[tuple[str, ET.Element]]:
    return [(f"{where}, step {step.get('s')}", step) for where, block in _blocks(root) for step in block]


def _plan_blocks(gpus: Sequence[Json]) -> list[tuple[str, Json]]:
    return [(f"rank {gpu['id']}, thread block {b['id']}", b) for gpu in gpus for b in gpu["threadblocks"]]


def _two(count: int, random: Random) -> tuple[int, int]:
    """Neighbours, or any two."""
    if random.random() < 0.5:
        first = random.randrange(count - 1)
        return first, first + 1
    first, second = sorted(random.sample(range(count), 2))
    return first, second


def _by_one(old: int, random: Random) -> int:
    return random.choice((-1, 1)) if old > 0 else 1
