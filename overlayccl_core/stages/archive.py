"""Rule archive: a results tree, the making of each of its files and the code for it, as one file."""

import json
from pathlib import Path

from overlayccl_core.archiving import make, manifest
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """Write results/<tree>.tar.zst."""
    (path,) = job.outputs["archive"]
    tree = Path(job.option("tree"))
    about = Manifest.from_data({"tree": tree.name, **json.loads(job.option("said")), **manifest.versions()})
    job.say(make.make(tree, path, about))
