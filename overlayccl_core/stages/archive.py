"""Rule archive: a results tree, how each file of it was made and the code that made it, as one file."""

import json
from pathlib import Path

from overlayccl_core.archiving import make, manifest
from overlayccl_core.archiving.manifest import Manifest
from overlayccl_core.tables.rule_job import RuleJob


def main(job: RuleJob) -> None:
    """results/<tree>.tar.zst."""
    (path,) = job.outputs["archive"]
    tree = Path(job.option("tree"))
    about = Manifest(tree=tree.name, **json.loads(job.option("said")), **manifest.versions())
    job.say(make.make(tree, path, about))
