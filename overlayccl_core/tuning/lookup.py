"""The best way of each tuned call as a folder: for `overlayccl run --ways`, and as a beginning of `--online`."""

import json
from collections.abc import Mapping
from typing import Any

from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.launching import fingerprint as fingerprints
from overlayccl_core.process_group.parts import FOUND, MODULE, WAYS, ways_digest
from overlayccl_core.program.case import Case
from overlayccl_core.tuning.keys import key_of
from overlayccl_core.tuning.open_ways import Space, module_of, rows_of
from overlayccl_core.tuning.replay import CallVerdict

TABLE = FOUND.replace("*", "0")
"""What rank 0 finds there; other leaders begin with their own calls."""


def lookup(
    space: Space, verdicts: Mapping[Case, CallVerdict], deployment: Deployment, fingerprint: str
) -> dict[str, str]:
    """Return name -> text of the files, from their arguments alone. fingerprint: of the measurement."""
    module, ways = module_of(space, deployment, fingerprint), rows_of(space)
    where = {
        "ways": ways_digest([module.encode(), ways.encode()]),
        "torch": fingerprints.part(fingerprint, "torch") or "",
        "world_size": deployment.ranks,
        "local_world_size": str(deployment.ranks_per_node),
    }
    calls = dict(_found(case, verdict) for case, verdict in verdicts.items())
    return {
        MODULE: module,
        WAYS: ways,
        TABLE: json.dumps({"where": where, "calls": calls}, indent=1),
    }


def _found(case: Case, verdict: CallVerdict) -> tuple[str, dict[str, Any]]:
    """Return the name of a call in the group of rank 0, and its way as a leader writes it."""
    stride = case.groups if case.strided else 1
    key, again, gain = key_of(case), verdict.again, verdict.gain
    trial = {
        "way": again.arms[verdict.found].way,
        "best": again.arms[0].way,
        "pairs": again.truth_us.shape[1],
        "ratio": 1 / gain.value,
        **({} if gain.low is None or gain.high is None else {"low": 1 / gain.high, "high": 1 / gain.low}),
    }
    name = key.of(range(0, case.ranks * stride, stride))
    way = {**again.arms[verdict.chosen]._asdict(), "us": float(again.us[verdict.chosen])}
    return name, {"key": [*key], "role": "", **way, "trials": [trial]}
