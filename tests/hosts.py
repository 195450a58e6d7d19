"""Hosts in network namespaces of this machine, for tests."""

import pytest

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching.launchers import namespaces


def hosts_or_skip(deployment: Deployment) -> Deployment:
    """The deployment; skips where nobody may make namespaces, and fails for any other reason to refuse it."""
    if "no network namespace" in (told := namespaces.refuses(deployment)):
        pytest.skip(told)
    assert not told
    return deployment
