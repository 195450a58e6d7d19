"""A sentence on times without real collectives, as declared by a backend."""

from overlayccl_core.launching import fingerprint
from overlayccl_core.report.measured import fingerprints_of
from overlayccl_core.report.tree import Tree


def emulated(tree: Tree) -> list[str]:
    """Return the sentence; none if all times are of the library's collectives between real ranks."""
    what = sorted({said for one in fingerprints_of(tree) if (said := fingerprint.part(one, "emulated"))})
    if not what:
        return []
    return [f"Emulated: times are of {', '.join(what)}, not of the library's collectives between real ranks."]
