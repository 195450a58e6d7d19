"""No process outlives the one that it is to die with, whoever takes orphans in."""

import signal
import subprocess
import sys

import pytest

IN_THE_WINDOW = """
import ctypes, os, time
from overlayccl_core.launching import processes
ctypes.CDLL(None).prctl({takes_orphans}, 1)  # PR_SET_CHILD_SUBREAPER, as `systemd --user` and slurmstepd do
told, tells = os.pipe()
if not (middle := os.fork()):
    middle = os.getpid()
    if not os.fork():
        while os.getppid() == middle:
            time.sleep(0.01)
        os.write(tells, str(os.getpid()).encode())
        processes.die_with(middle)
        time.sleep(30)
    os._exit(0)
os.waitpid(middle, 0)
orphan = int(os.read(told, 20))
print(os.waitstatus_to_exitcode(os.waitpid(orphan, 0)[1]))
"""


@pytest.mark.timeout(25)
def test_one_whose_parent_ended_before_it_asked_the_kernel_ends_too() -> None:
    code = IN_THE_WINDOW.format(takes_orphans=36)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(-signal.SIGKILL), done.stderr


def test_a_child_dies_with_who_started_it() -> None:
    child = (
        "import subprocess, sys, time; from overlayccl_core.launching import processes; "
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], "
        "preexec_fn=processes.with_me()); print(one.pid, flush=True); time.sleep(30)"
    )
    with subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()
        started.wait()
        code = f"import os, time\nwhile os.path.exists('/proc/{pid}/exe'): time.sleep(0.01)"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
