"""How long the phases of a run took, from the benchmark files of its rules: `make run` prints it at the end."""

import argparse
from collections.abc import Iterable
from pathlib import Path


def seconds_of(file: Path) -> float:
    """Wall-clock seconds of one job, as Snakemake's `benchmark` wrote them. ValueError for another file."""
    lines = file.read_text().splitlines()
    if len(lines) < 2 or not lines[0].startswith("s\t"):
        raise ValueError(f"{file}: is no benchmark file of Snakemake: remove it")
    return float(lines[1].split("\t")[0])


def phases(files: Iterable[Path]) -> dict[str, dict[str, float]]:
    """rule -> what it was for (a Problem, a model; empty text) -> seconds; the slowest rule first."""
    seconds_by_rule: dict[str, dict[str, float]] = {}
    for file in sorted(files):
        rule, _, subject = file.stem.partition("-")
        seconds_by_rule.setdefault(rule, {})[subject] = seconds_of(file)
    return dict(sorted(seconds_by_rule.items(), key=lambda item: -sum(item[1].values())))


def text(seconds_by_rule: dict[str, dict[str, float]]) -> str:
    """One line for each rule: seconds, and of what."""
    lines = ["Seconds of each phase (those that start no ranks run beside one another):"]
    for rule, jobs in seconds_by_rule.items():
        parts = ", ".join(f"{subject} {seconds:.0f}" for subject, seconds in jobs.items() if subject)
        lines.append(f"  {rule:<10}{sum(jobs.values()):6.0f}" + (f"   {parts}" if parts else ""))
    return "\n".join(lines)


def main() -> None:
    """Print the phases whose jobs ended since a time."""
    parser = argparse.ArgumentParser(prog="python -m workflow_scripts.phases")
    parser.add_argument("--results", type=Path, required=True, help="results/<deployment>")
    parser.add_argument("--since", type=float, default=0.0, help="seconds since 1970")
    arguments = parser.parse_args()
    files = [f for f in (arguments.results / "logs").glob("*.tsv") if f.stat().st_mtime >= arguments.since]
    if files:
        print(text(phases(files)))


if __name__ == "__main__":
    main()
