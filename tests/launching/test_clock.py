"""One clock for several hosts, and the way to another host."""

import socket
import subprocess
import sys
import threading
import time

import pytest

from overlayccl_core.launching import clock
from overlayccl_core.launching.interface import address_towards, interface_towards

HOST = "127.0.0.1"
APART = ("unshare", "--time", "--fork", "--monotonic", "1000")


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
        offset_ns, off_by_ns = clock.offset_ns(HOST, server.port, 100)
    finally:
        server.close()
    assert abs(offset_ns - ahead_ns) <= off_by_ns < 50_000_000


def test_answers_to_other_questions_do_not_count() -> None:
    """Datagrams may come late or twice."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((HOST, 0))

    def answer() -> None:
        for _ in range(3):
            question, asker = server.recvfrom(64)
            server.sendto(clock._STAMP.pack(77) + question, asker)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(TimeoutError, match="tells the time"):
        clock.offset_ns(HOST, server.getsockname()[1], 3)
    thread.join()
    server.close()


def test_nobody_tells_the_time() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind((HOST, 0))
        with pytest.raises(TimeoutError, match=f"nothing at {HOST}"):
            clock.offset_ns(HOST, deaf.getsockname()[1], 2)


def test_a_boot_is_the_same_as_long_as_the_host_is_up() -> None:
    assert clock.boot() == clock.boot() and len(clock.boot().split()[0]) == 36


def test_a_namespace_with_a_clock_of_its_own_is_another_boot() -> None:
    code = "from overlayccl_core.launching.clock import boot; print(boot())"
    done = subprocess.run([*APART, sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no namespace of time can be made here: {done.stderr.strip()}")
    assert done.stdout.strip() != clock.boot()


class Answers:
    """In place of a server: what is told next, (offset, within), at a time of this test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.next = 0, (0, 0)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(clock, "offset_ns", lambda *_: self.next)

    def after(self, seconds: float, offset: int, within: int) -> None:
        self.now_ns += round(seconds * 1e9)
        self.next = offset, within


def test_a_clock_that_drifts_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 ppm: 20 us in the tenth of a second between two questions, whose answers are good to 30 us."""
    answers = Answers(monkeypatch)
    answers.after(0, 1_000_000, 30_000)
    followed = clock.Followed(HOST, 9)
    for step in range(1, 600):
        answers.after(0.1, 1_000_000 + 20_000 * step, 30_000)
        followed.ask()
        assert abs(followed.offset_ns - answers.next[0]) <= followed.off_by_ns
    assert followed.off_by_ns <= 100_000, "12 ms had it not been asked for again"


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ((5_000_000, 6_000_000), (1_000_000, 80_000)),  # 30 us, and 500 ppm of 0.1 s
        ((9_000_000, 40_000), (9_000_000, 8_040_000)),
    ],
    ids=["slow", "set"],
)
def test_a_slow_answer_changes_nothing_and_a_clock_that_was_set_is_believed(
    answer: tuple[int, int], known: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers(monkeypatch)
    answers.after(0, 1_000_000, 30_000)
    followed = clock.Followed(HOST, 9)
    answers.after(0.1, *answer)
    followed.ask()
    assert (followed.offset_ns, followed.off_by_ns) == known


def test_where_nobody_answers_any_more_what_is_known_stays() -> None:
    server = clock.ClockServer(HOST)
    followed = clock.Followed(HOST, server.port)
    known = followed.offset_ns, followed.off_by_ns
    server.close()
    followed.ask()
    assert (followed.offset_ns, followed.off_by_ns) == known


def test_this_host_finds_itself_at_the_loopback() -> None:
    assert address_towards(HOST) == HOST and address_towards("localhost") == HOST
    assert interface_towards(HOST) == "lo"


def test_the_interface_that_leads_elsewhere_has_the_address_that_is_used() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host is on no network")
        names = {name for _, name in socket.if_nameindex()}
    assert interface_towards("192.0.2.1") in names - {"lo"}
