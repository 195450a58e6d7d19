"""The process that forks for tests/sandbox/forked.py."""

import json
import os
import socket
import sys

from tests.hostile import executing  # noqa: F401  and with it all that a child imports


def serve() -> str:
    """Fork as often as it is asked. In each child: the command that it has to run, in the place of `python -c`."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    while True:
        words, files, _, _ = socket.recv_fds(channel, 2**16, 3)
        if not words:
            os._exit(0)
        if not (pid := os.fork()):
            break
        for file in files:
            os.close(file)
        channel.send(str(pid).encode())
        _, status, used = os.wait4(pid, 0)
        channel.send(f"{os.waitstatus_to_exitcode(status)} {used.ru_utime + used.ru_stime}".encode())
    command, folder = json.loads(words)
    os.chdir(folder)
    for place, file in enumerate(files):
        os.dup2(file, place)
    channel.detach()
    os.closerange(3, 2**12)
    sys.argv[1:] = []
    return str(command)
