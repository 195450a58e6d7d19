"""Deployed modules that call torch.distributed."""

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.emit.deployed import deployed_module

VERSIONS = ("torch", "nccl")


def versions_in(fingerprint: str) -> dict[str, str]:
    """Versions of torch, and of nccl where the line tells it."""
    found = {name: version for name in VERSIONS if (version := fingerprints.part(fingerprint, name))}
    if "torch" not in found:
        raise ValueError(f"no version of torch in the fingerprint {fingerprint!r}: measure again")
    return found


deployed = deployed_module
