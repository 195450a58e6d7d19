"""What every deployed module starts with: its Cases, how it is connected, what it says of itself."""

HEAD = '''\
"""Proven calls for {problem}.

Generated, and changed by generating it again only. It needs torch and nothing else.

{table}

    sums = {name}.connect("{example}")  # on all ranks, in the same order
    results = sums.group(0)(tensors)  # lists of tensors, one on every rank; gradients flow
    sums.selftest()
    print(sums.stamp())

With OVERLAYCCL_PLAIN=1 in the environment of all ranks, the plain calls of the library run instead.
"""

import os
import warnings
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

PROBLEM = "{problem}"
# Proof and measurements were made with these.
PROVEN = {proven}
# Of all Programs in this file.
DIGEST = "{digest}"
'''

API = '''
def cases():
    """Ids of the Cases in this module."""
    return tuple(ENTRIES)


def connect(case, members=None, new_group=None, device="cpu", strict=False):
    """The calls of one Case, ready on this rank. All ranks of the job call it, in the same order.

    members: global ranks of every group that runs the Case at the same time (default: as in the Case);
    new_group: makes (or keeps) the process group of some global ranks; device: where tensors are;
    strict: refuse a library or version other than the proven ones (default: warn once).
    """
    connected = _connect(case, members, new_group, device, strict)
    _connected.append(connected)
    return connected


def _connect(case, members=None, new_group=None, device="cpu", strict=False):
    if case not in ENTRIES:
        raise ValueError(f"{case!r} is not in this module. {_what_there_is()}")
    if not dist.is_initialized():
        raise RuntimeError("there is no process group yet: call torch.distributed.init_process_group first")
    entry = ENTRIES[case]
    members = _checked_members(case, entry, members)
    plain = _wants_plain()
    device = torch.device(device)
    versions = found(device)
    _agree({"the Case": case, "the module": DIGEST, "OVERLAYCCL_PLAIN": plain, "members": members, **versions})
    _check_versions(versions, strict)
    permutes = own_world() if entry.permutes and versions["library"] == "nccl" else None
    return Connected(case, entry, members, new_group or kept_group, device, plain, permutes)


def stamp():
    """What this module is, and what every connected Case is and has called so far."""
    return {
        "problem": PROBLEM,
        "module": DIGEST,
        "proven": dict(PROVEN),
        "cases": [connected.stamp() for connected in _connected],
    }


def selftest(new_group=None, device="cpu", seed=0):
    """Check every Case of this module, on all ranks: see Connected.selftest. Returns what was checked."""
    return [line for case in cases() for line in _connect(case, None, new_group, device).selftest(seed)]


def found(device):
    """The library and the versions that are here now."""
    configured = dist.get_backend_config()
    library = dict(part.split(":") for part in configured.split(",")).get(device.type, configured)
    versions = {"library": library, "torch": torch.__version__}
    if library == "nccl":
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return versions


_connected = []
_warned = False
_groups = {}


def kept_group(ranks):
    """The process group of some global ranks, made once for all Cases."""
    key = (dist.group.WORLD, ranks)
    if key not in _groups:
        _groups[key] = make_group(ranks)
    return _groups[key]


def own_world():
    """A group of all ranks for this module's permutes, made once: NCCL has no tags to tell them from others."""
    key = (dist.group.WORLD, "permutes")
    if key not in _groups:
        _groups[key] = dist.new_group()
    return _groups[key]


def _what_there_is():
    lines = [f"{case}: {entry.what()}" for case, entry in ENTRIES.items()]
    return "It has these Cases, no other shape, type or number of ranks is proven:\\n  " + "\\n  ".join(lines)


def _checked_members(case, entry, members):
    ranks = dist.get_world_size()
    if members is None and ranks != sum(map(len, entry.members)):
        raise ValueError(f"{case} is not of {ranks} ranks, which run here. {_what_there_is()}")
    given = entry.members if members is None else members
    try:
        members = tuple(tuple(group) for group in given)
    except TypeError:  # ranks, not groups of them
        members = ()
    placed = [rank for group in members for rank in group]
    if {len(group) for group in members} != {entry.ranks} or sorted(placed) != list(range(ranks)):
        raise ValueError(
            f"members of {case} must be groups of {entry.ranks} ranks that hold each of the {ranks} ranks"
            f" once (got {given}). {_what_there_is()}"
        )
    return members


def _wants_plain():
    value = os.environ.get("OVERLAYCCL_PLAIN", "")
    if value not in ("", "0", "1"):
        raise ValueError(f"OVERLAYCCL_PLAIN must be 1 (plain calls), 0 or unset (got {value!r})")
    return value == "1"


def _agree(mine):
    """The same error on all ranks where they do not say the same."""
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, mine)
    for rank, other in enumerate(said):
        for name, value in said[0].items():
            if other[name] != value:
                raise RuntimeError(
                    f"ranks differ in {name}: {value!r} on rank 0, {other[name]!r} on rank {rank}:"
                    " start all ranks alike"
                )


def _check_versions(versions, strict):
    global _warned
    differ = _differences(versions)
    if not differ:
        return
    text = (
        f"{PROBLEM} was proven and measured with {', '.join(f'{k} {PROVEN[k]}' for k in differ)}, here is"
        f" {', '.join(f'{k} {versions.get(k)}' for k in differ)}: values are checked by selftest(), speed is"
        " not; deploy again for this library, or set OVERLAYCCL_PLAIN=1"
    )
    if strict:
        raise RuntimeError(text + ", or connect with strict=False")
    if not _warned:
        _warned = True
        warnings.warn(text, RuntimeWarning, stacklevel=4)


def _differences(versions):
    return [name for name, version in PROVEN.items() if versions.get(name) != version]


def port_text(port):
    """partial[0, 3]"""
    return f"{port[0]}[{', '.join(map(str, port[1:]))}]" if len(port) > 1 else str(port[0])
'''

LIBRARY = '''
class Library:
    """The library's calls, each counted by its name. permutes: the process group of permutes, or None: all."""

    def __init__(self, permutes):
        self.calls = {{}}
{calls}

    def _counted(self, call, *more):
        name = call.__name__

        def counted(*arguments):
            self.calls[name] = self.calls.get(name, 0) + 1
            return call(*arguments, *more)

        return counted
'''
