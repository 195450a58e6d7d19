"""The filter of system calls, walked as the kernel walks it; where there is none, nothing is confined silently."""

import platform
import sys

import pytest

from overlayccl_core.sandbox import confine as walls
from overlayccl_core.sandbox.confine import CannotConfine, Limits, confine

PAGE, READ, WRITE, EXEC = 4096, 1, 2, 4
MACHINES = sorted(walls._MACHINES)
CALLS = {  # name: its numbers, as in asm/unistd.h
    "x86_64": {"write": 1, "mmap": 9, "mprotect": 10, "brk": 12, "exit_group": 231, "openat": 257, "read": 0},
    "aarch64": {
        "write": 64,
        "mmap": 222,
        "mprotect": 226,
        "brk": 214,
        "exit_group": 94,
        "openat": 56,
        "read": 63,
    },
}


def allowed(machine: str, call: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter returns for a call."""
    filter_ = list(walls._filter(walls._MACHINES[machine]))
    words = [call, walls._MACHINES[machine].audit if audit is None else audit, 0, 0]
    for argument in (*arguments, *[0] * (6 - len(arguments))):
        words += [argument & 0xFFFFFFFF, argument >> 32]
    at, value = 0, 0
    while True:
        code, yes, no, operand = filter_[at]
        at += 1
        match code:
            case walls._LOAD:
                value = words[operand // 4]
            case walls._EQUAL:
                at += yes if value == operand else no
            case walls._HAS_BIT:
                at += yes if value & operand else no
            case walls._RETURN:
                return operand


@pytest.mark.parametrize("machine", MACHINES)
def test_a_confined_process_computes_and_answers(machine: str) -> None:
    calls = CALLS[machine]
    for call, arguments in (
        ("write", (1, 0, 9)),
        ("brk", ()),
        ("exit_group", (0,)),
        ("mmap", (0, PAGE, READ | WRITE)),
        ("mprotect", (0, PAGE, READ)),
    ):
        assert allowed(machine, calls[call], *arguments) == walls._ALLOW, call


@pytest.mark.parametrize("machine", MACHINES)
def test_all_else_is_refused(machine: str) -> None:
    calls = CALLS[machine]
    for call, arguments in (
        ("write", (2, 0, 9)),
        ("write", (0, 0, 9)),
        ("mmap", (0, PAGE, READ | EXEC)),
        ("mprotect", (0, PAGE, READ | WRITE | EXEC)),
        ("openat", ()),
        ("read", ()),
    ):
        assert allowed(machine, calls[call], *arguments) == walls._REFUSE, call
    known = {*walls._MACHINES[machine].calls, *(calls[c] for c in ("write", "mmap", "mprotect"))}
    for call in range(600):
        result = allowed(machine, call, 1)
        assert result == (walls._ALLOW if call in known else walls._REFUSE), call
        assert allowed(machine, call | 0x40000000, 1) == walls._REFUSE  # the same call of the x32 table
        assert allowed(machine, call, 1, audit=0x40000003) == walls._KILL  # and of the 32-bit one


@pytest.mark.parametrize(
    ("system", "machine"), [("darwin", "arm64"), ("linux", "riscv64"), ("win32", "AMD64")]
)
def test_where_there_is_no_filter_it_says_so(
    system: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(CannotConfine, match=f"confined on {system} {machine}.*offline"):
        confine(Limits())
