"""The `overlayccl` command: one file per sub-command; errors are one message, never a traceback."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overlayccl_core.archiving.unpacked import use_plugins
from overlayccl_core.cli import (
    ask,
    bucket,
    compare,
    doctor,
    estimate,
    explain,
    init,
    problems,
    prove,
    report,
    schema,
    score,
    summary,
    trace,
    try_strategy,
    verify,
    why,
)
from overlayccl_core.cli.unread import until_unread
from overlayccl_core.program.kinds import NotApplicable, Rejected, printable

COMMANDS = (
    *(problems, trace, prove, score, try_strategy, ask, bucket),
    *(explain, summary, report, schema, doctor, estimate),
    *(verify, compare, init, why),
)
NOT_PROVEN, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 (the answer is no), 2 (wrong input), 130 (interrupted) or 141 (broken pipe)."""
    return until_unread(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="overlayccl", description="Prove, price and time ways of calling a closed collective library."
    )
    _add_place(parser, root=Path(), profile=None, deployment=None, preset=None)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    for one in commands.choices.values():
        _add_place(one, **dict.fromkeys(("root", "profile", "deployment", "preset"), argparse.SUPPRESS))
    chosen = parser.parse_args(arguments)
    if why_not := use_plugins(chosen.root):
        _say(why_not, 0)
    try:
        return int(chosen.run(chosen))
    except Rejected as error:
        return _say(f"not a legal Program: {error}", NOT_PROVEN)
    except NotApplicable as reason:
        return _say(f"not applicable at this Case: {reason}", NOT_PROVEN)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        return _say(f"error: {error}", WRONG_INPUT)
    except KeyboardInterrupt:
        return _say("interrupted; finished rounds are kept, the same command goes on from there", INTERRUPTED)


def _add_place(
    parser: argparse.ArgumentParser, *, root: Any, profile: Any, deployment: Any, preset: Any
) -> None:
    """Add the options for a tree, before or after a command's name; those after it count."""
    place = parser.add_argument_group("which run is meant")
    place.add_argument(
        "--root", type=Path, default=root, metavar="FOLDER", help="the repository's root (default: here)"
    )
    place.add_argument(
        "--profile",
        default=profile,
        metavar="NAME",
        help="a folder in profiles/: its deployment, and where its jobs run",
    )
    place.add_argument(
        "--deployment",
        default=deployment,
        metavar="NAME",
        help="a file in config/deployments (default: the configured one)",
    )
    place.add_argument(
        "--preset",
        default=preset,
        metavar="NAME",
        help="one of the presets in config/config.yaml (default: the configured one)",
    )


def _say(message: str, code: int) -> int:
    print(printable(f"overlayccl: {message}"), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
