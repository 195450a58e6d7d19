"""Parts of a fingerprint's line."""

from overlayccl_core.backends.fingerprint import line, part


def test_a_part_is_found_by_its_name() -> None:
    text = line(
        {"host": "vm", "cpu": "AMD EPYC 9B45, boosted", "torch": "2.13.0+cpu", "ranks": "4 (4 a node)"}
    )
    assert part(text, "torch") == "2.13.0+cpu"
    assert part(text, "ranks") == "4 (4 a node)"
    assert part(text, "nccl") is None
