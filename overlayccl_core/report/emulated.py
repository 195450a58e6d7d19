"""What times are of where a backend says that they are not of real collectives, in a sentence."""

from overlayccl_core.launching import fingerprint
from overlayccl_core.report.measured import fingerprints_of
from overlayccl_core.report.tree import Tree


def emulated(tree: Tree) -> list[str]:
    """The sentence; none where all times are of the library's collectives between real ranks."""
    what = sorted({said for one in fingerprints_of(tree) if (said := fingerprint.part(one, "emulated"))})
    if not what:
        return []
    return [f"Emulated: times are of {', '.join(what)}, not of the library's collectives between real ranks."]
