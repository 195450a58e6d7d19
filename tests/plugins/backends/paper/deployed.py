"""Deployed modules on paper."""

from collections.abc import Sequence

from overlayccl_core.backends import fingerprint as fingerprints
from overlayccl_core.emit.deployed_case import DeployedCase, Stamp
from overlayccl_core.program.json_form import dumps


def versions_in(fingerprint: str) -> dict[str, str]:
    """NumPy's, as a measurement tells it."""
    version = fingerprints.part(fingerprint, "numpy")
    if version is None:
        raise ValueError(f"no version of numpy in the fingerprint {fingerprint!r}: measure again")
    return {"numpy": version}


def deployed(problem: str, cases: Sequence[DeployedCase], stamp: Stamp) -> str:
    """A module that holds the chosen Programs: PROGRAMS[case][direction]."""
    chosen = {
        entry.case_id: {str(way): dumps(program) for way, program in entry.programs("chosen").items()}
        for entry in cases
    }
    proven = {"library": stamp.library, **stamp.versions}
    return f'"""The chosen Programs of {problem}, on paper."""\n\nPROVEN_WITH = {proven!r}\nPROGRAMS = {chosen!r}\n'
