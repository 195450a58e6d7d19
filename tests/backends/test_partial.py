"""Batches whose table is written go; those of others stay."""

from pathlib import Path

from overlayccl_core.backends.partial import KEY_DIGITS, forget


def test_only_the_batches_of_the_rule_are_forgotten(tmp_path: Path) -> None:
    key = "0f" * (KEY_DIGITS // 2)
    mine, others = tmp_path / f"bench-a-{key}", [tmp_path / f"bench-a-b-{key}", tmp_path / f"probe-{key}"]
    for folder in (mine, *others):
        folder.mkdir()
        (folder / "launch-0.parquet").touch()
    forget(tmp_path, "bench-a")
    assert not mine.exists() and all(folder.exists() for folder in others)
