"""The `overlayccl` command: one file per sub-command; errors are one message, never a traceback.

A sub-command is a module: its docstring is its help, `add(parser)` declares its arguments if it has any, and
`run(arguments)` returns its exit code.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from overlayccl_core.archiving.unpacked import use_plugins
from overlayccl_core.cli import (
    ask,
    bucket,
    capture,
    compare,
    discover,
    doctor,
    drift,
    estimate,
    explain,
    init,
    losses,
    overlap,
    problems,
    prove,
    redeploy,
    report,
    run_script,
    schema,
    score,
    summary,
    trace,
    try_strategy,
    tune,
    verify,
    why,
    write,
)
from overlayccl_core.cli.unread import until_unread
from overlayccl_core.program.kinds import NotApplicable, Rejected, printable

COMMANDS: tuple[ModuleType, ...] = (
    *(problems, trace, prove, score, try_strategy, write, tune, redeploy, ask, bucket),
    *(capture, run_script, losses),
    *(explain, summary, overlap, report, schema, doctor, discover, estimate),
    *(verify, compare, drift, init, why),
)
PLACE = (
    ("root", "FOLDER", Path, "the repository's root (default: here)"),
    ("profile", "NAME", str, "a folder in profiles/: its deployment, and where its jobs run"),
    ("deployment", "NAME", str, "a file in config/deployments (default: the configured one)"),
    (
        "preset",
        "NAME",
        str,
        "one of the presets in config/config.yaml, or of a tune (default: the configured one)",
    ),
)  # option, its value, what it is read as, what it means
NOT_PROVEN, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 (the answer is no), 2 (wrong input), 130 (interrupted) or 141 (broken pipe)."""
    return until_unread(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="overlayccl", description="Prove, price and time ways of calling a closed collective library."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        called, _, about = str(command.__doc__).partition("`: ")  # `overlayccl NAME`: what it does, then more
        does, _, more = about.partition("\n\n")
        one = commands.add_parser(called.split()[1], help=does.strip(), description=more or does)
        getattr(command, "add", lambda parser: None)(one)
        one.set_defaults(run=command.run)
    for one in (*commands.choices.values(), parser):
        place = one.add_argument_group("which run is meant")  # after the command's name they count
        for name, metavar, kind, meaning in PLACE:
            usual = (Path() if name == "root" else None) if one is parser else argparse.SUPPRESS
            place.add_argument(f"--{name}", type=kind, default=usual, metavar=metavar, help=meaning)
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


def _say(message: str, code: int) -> int:
    print(printable(f"overlayccl: {message}"), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
