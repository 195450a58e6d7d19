"""One clock for several hosts, and the way to another host."""

import socket
import threading
import time

import pytest

from overlayccl_core.backends import clock
from overlayccl_core.backends.interface import interface_towards

HOST = "127.0.0.1"


def test_the_difference_of_two_clocks_is_found_within_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's clock is ahead by a second; how far that may be off is half the quickest answer."""
    ahead_ns = 1_000_000_000
    server = clock.ClockServer(HOST)
    true = time.monotonic_ns
    here = threading.get_ident()

    def monotonic_ns() -> int:
        return true() + (0 if threading.get_ident() == here else ahead_ns)

    monkeypatch.setattr(time, "monotonic_ns", monotonic_ns)
    try:
        offset_ns, off_by_ns = clock.offset_ns(HOST, server.port)
    finally:
        server.close()
    assert abs(offset_ns - ahead_ns) <= off_by_ns < 50_000_000


def test_answers_to_other_questions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datagrams may come late or twice."""
    monkeypatch.setattr(clock, "QUESTIONS", 3)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((HOST, 0))

    def answer() -> None:
        for _ in range(3):
            question, asker = server.recvfrom(64)
            server.sendto(clock._STAMP.pack(77) + question, asker)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(TimeoutError, match="tells the time"):
        clock.offset_ns(HOST, server.getsockname()[1])
    thread.join()
    server.close()


def test_nobody_tells_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "QUESTIONS", 2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind((HOST, 0))
        with pytest.raises(TimeoutError, match=f"nothing at {HOST}"):
            clock.offset_ns(HOST, deaf.getsockname()[1])


def test_a_boot_is_the_same_as_long_as_the_host_is_up() -> None:
    assert clock.boot() == clock.boot() and len(clock.boot()) == 36


def test_the_interface_that_leads_to_this_host_is_the_loopback() -> None:
    assert interface_towards(HOST) == "lo"


def test_the_interface_that_leads_elsewhere_has_the_address_that_is_used() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host is on no network")
        names = {name for _, name in socket.if_nameindex()}
    assert interface_towards("192.0.2.1") in names - {"lo"}
