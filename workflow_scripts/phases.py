"""Durations of a run's phases, from the attempts of its jobs: `make run` prints them at the end."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from overlayccl_core.tables import attempts


def phases(files: Iterable[Path]) -> dict[str, dict[str, float]]:
    """Map rule -> subject (a Problem, a model; or empty) -> seconds; the slowest rule first.

    files: `logs/<job>.attempts`; one whose last attempt made no tables is left out.
    """
    seconds_by_rule: dict[str, dict[str, float]] = {}
    for file in sorted(files):
        rule, _, subject = file.stem.partition("-")
        if (seconds := attempts.made_s(file)) is not None:
            seconds_by_rule.setdefault(rule, {})[subject] = seconds
    return dict(sorted(seconds_by_rule.items(), key=lambda item: -sum(item[1].values())))


def text(seconds_by_rule: dict[str, dict[str, float]]) -> str:
    """Format one line a rule: its seconds, in total and by subject."""
    lines = ["Seconds of each phase (those that start no ranks run beside one another):"]
    for rule, jobs in seconds_by_rule.items():
        parts = ", ".join(f"{subject} {seconds:.0f}" for subject, seconds in jobs.items() if subject)
        lines.append(f"  {rule:<10}{sum(jobs.values()):6.0f}" + (f"   {parts}" if parts else ""))
    return "\n".join(lines)


def main() -> None:
    """Print the phases of jobs ended since a time."""
    parser = argparse.ArgumentParser(prog="python -m workflow_scripts.phases")
    parser.add_argument("--results", type=Path, required=True, help="results/<deployment>")
    parser.add_argument("--since", type=float, default=0.0, help="seconds since 1970")
    arguments = parser.parse_args()
    logs = (arguments.results / "logs").glob(f"*{attempts.SUFFIX}")
    if found := phases(log for log in logs if log.stat().st_mtime >= arguments.since):
        print(text(found))


if __name__ == "__main__":
    main()
