"""Confinement of a process tracing a stranger's source: it may compute, and write its answer to stdout.

Two walls, both permanent and without privileges. Limits of the operating system (`setrlimit`): seconds of CPU,
memory, no files, no processes. A filter of system calls (seccomp, Linux 3.17 and later): calls not listed below
fail with EPERM, from compiled code too. Nothing can be opened, connected, started, traced, killed or made
executable.

The filter is a dozen numbers, so it is written out here: a library of filters would need installing on the system.
"""

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from errno import EPERM


class CannotConfine(ValueError):
    """This system has no such walls; the message gives the reason and an alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one trace, from the moment of its confinement."""

    cpu_s: int = 8  # whole seconds of CPU; the fuel of the language is used up before
    wall_s: float = 30.0  # seconds until a kill, for a process that computes nothing
    memory_bytes: int = 2 * 2**30  # addresses, imports included
    output_bytes: int = 16 * 2**20  # size of the answer


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """Numbers of an architecture: its name to the kernel (linux/audit.h), and its system calls (asm/unistd.h).

    calls: always allowed. mapping: allowed unless the third argument asks for executable memory. write: allowed to
    stdout alone.
    """

    audit: int
    calls: tuple[int, ...]
    mapping: tuple[int, int]
    write: int
    seccomp: int


# munmap, brk, rt_sigreturn, mremap, madvise, exit, futex, clock_gettime, exit_group; mmap, mprotect
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E, calls=(11, 12, 15, 25, 28, 60, 202, 228, 231), mapping=(9, 10), write=1, seccomp=317
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        calls=(215, 214, 139, 216, 233, 93, 98, 113, 94),
        mapping=(222, 226),
        write=64,
        seccomp=277,
    ),
}

# linux/filter.h: load a word of a call, compare it, return. linux/seccomp.h: results, installation
_LOAD, _EQUAL, _HAS_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | EPERM
_NUMBER, _ARCHITECTURE, _FIRST, _THIRD = 0, 4, 16, 32  # offsets in struct seccomp_data; low words first
_FILTER, _ALL_THREADS = 1, 1
# linux/prctl.h
_DIE_WITH_PARENT, _NO_NEW_PRIVILEGES = 1, 38
_EXECUTABLE = 4  # PROT_EXEC
_STDOUT = 1

_Instruction = tuple[int, int, int, int]
"""Code; number to skip if a comparison holds, and if not; operand."""


class _Program(ctypes.Structure):
    """struct sock_fprog: a filter as the kernel takes it."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine(limits: Limits) -> None:
    """Give up all but computing and stdout, in this process, permanently. CannotConfine: it is not confined."""
    machine = _machine()
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, _DIE_WITH_PARENT, signal.SIGKILL)
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + limits.cpu_s)
    _limit(resource.RLIMIT_AS, limits.memory_bytes)
    for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        _limit(what, 0)
    _call(libc.prctl, _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    code = b"".join(struct.pack("=HBBI", *one) for one in _filter(machine))
    program = _Program(len(code) // struct.calcsize("=HBBI"), code)
    _call(libc.syscall, machine.seccomp, _FILTER, _ALL_THREADS, ctypes.byref(program))


def _machine() -> _Machine:
    name = platform.machine()
    if sys.platform != "linux" or name not in _MACHINES or sys.byteorder != "little":
        raise CannotConfine(
            f"no process can be confined on {sys.platform} {name}: a proposer's source is traced on Linux"
            f" ({' or '.join(_MACHINES)}) only. Search there, in a container say, or by the rules alone"
            " (proposer: offline)"
        )
    return _MACHINES[name]


def _filter(machine: _Machine) -> Iterable[_Instruction]:
    """Yield the filter: each comparison is followed by its result if it holds, and else skips it."""
    yield from (_load(_ARCHITECTURE), (_EQUAL, 1, 0, machine.audit), _end(_KILL))
    yield _load(_NUMBER)
    for call in machine.calls:
        yield from ((_EQUAL, 0, 1, call), _end(_ALLOW))
    for call in machine.mapping:
        executable = (_HAS_BIT, 0, 1, _EXECUTABLE)
        yield from ((_EQUAL, 0, 4, call), _load(_THIRD), executable, _end(_REFUSE), _end(_ALLOW))
    to_stdout = (_EQUAL, 0, 1, _STDOUT)
    yield from ((_EQUAL, 0, 3, machine.write), _load(_FIRST), to_stdout, _end(_ALLOW), _end(_REFUSE))


def _load(place: int) -> _Instruction:
    return _LOAD, 0, 0, place


def _end(result: int) -> _Instruction:
    return _RETURN, 0, 0, result


def _limit(what: int, most: int) -> None:
    """Lower a limit, never raise it. For CPU, one second more kills the process."""
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most + 1 if what == resource.RLIMIT_CPU and most != hard else most))


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    """Call a function of libc; CannotConfine if it fails."""
    wide = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    if function(*wide) != 0:
        raise CannotConfine(
            f"the kernel refuses to confine a process ({os.strerror(ctypes.get_errno())}), and a proposer's source"
            " is not traced without: allow prctl and seccomp (a container's profile may forbid them), or search by"
            " the rules alone (proposer: offline)"
        )
