"""What ranks of a launch find in their environment."""

import pytest

from overlayccl_core.backends.torch_ranks.starting import rank_environment
from tests.backends.batches import deployment


def test_what_a_script_asks_of_deployed_modules_reaches_no_rank_that_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plain calls would be timed as the chosen file."""
    for name in ("OVERLAYCCL_PLAIN", "OVERLAYCCL_CHECK", "OF_ONES_OWN"):
        monkeypatch.setenv(name, "1")
    there = rank_environment({}, deployment())
    assert there["OF_ONES_OWN"] == "1"
    assert not {"OVERLAYCCL_PLAIN", "OVERLAYCCL_CHECK"} & set(there)
