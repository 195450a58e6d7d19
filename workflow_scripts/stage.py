"""Run the stage of a rule: `python -P -m workflow_scripts.stage RULE --OPTION VALUE ... --log FILE`.

A stage is `overlayccl_core/stages/RULE.py`; its rule gives the options (`stage` in rules/common.smk).
"""

import sys
import tempfile
import time
import traceback
from pathlib import Path

from overlayccl_core import disk, loader
from overlayccl_core.launching import processes
from overlayccl_core.tables import attempts
from overlayccl_core.tables.rule_job import RuleJob
from workflow_scripts.following import follow, refuse_elsewhere
from workflow_scripts.progress import Progress
from workflow_scripts.stamps import none_ahead

MEASURES = "partial"  # an option of measuring stages only: the folder of finished launches


def main(words: list[str]) -> int:
    """Return 0; 1 after a message for bad input (ValueError) or a traceback for a bug; 130 after an interrupt."""
    log = Path(words[words.index("--log") + 1])
    attempts.begin(log, time.time() - processes.age_s())
    say = Progress(words[0], log)
    job = RuleJob.of(words, say)
    made = False
    try:
        follow(say, say.alive)
        if MEASURES in job.options:
            refuse_elsewhere()
            _begin_starter(job)
        loader.load("stages", job.rule).main(job)
        none_ahead(job.all_inputs, say)
        made = True
    except ValueError as error:
        say(f"ERROR: {error}")
        return 1
    except Exception as error:
        if number := disk.refused(error):
            where = disk.said(number, *job.all_outputs[:1], Path(tempfile.gettempdir()))
            say(f"ERROR: {where}. {disk.MEND}")
        else:
            say(f"BUG: {traceback.format_exc()}")
        return 1
    except KeyboardInterrupt:
        say("interrupted: what was measured so far is kept")
        return 130
    finally:
        attempts.end(log, time.time(), made=made)
        say.end()
    return 0


def _begin_starter(job: RuleJob) -> None:
    from overlayccl_core.backends import backend  # most stages start no ranks
    from overlayccl_core.configuration.deployment import load

    backend.begin_starter(load(job.option("deployment")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
