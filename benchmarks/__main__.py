"""python -m benchmarks [SECTION ...]: speed of the core at the size of a large cluster, and
of exchanges by counts.

A section that has options takes them behind its name: `python -m benchmarks cluster --ranks 96`.
"""

import argparse
import importlib

SECTIONS = ("candidate", "proof", "by_counts", "passage")
ON_REQUEST = (  # minutes to an hour: of a finished run, of real torch_xla, of searches at cluster size
    *("sweep", "from_developer", "race", "floor", "cold", "hlo", "lanes", "tuned", "lossy"),
    *("cluster", "killed", "neighbour", "schedules", "written"),
)


def main() -> None:
    """Print the sections that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"{', '.join(SECTIONS)} (all by default); {', '.join(ON_REQUEST)}",
    )
    asked, more = parser.parse_known_args()
    known = [name for name in asked.sections if name in (*SECTIONS, *ON_REQUEST)]
    unknown = [name for name in asked.sections if name not in known]
    chosen = known or (() if unknown else SECTIONS)
    sections = {name: importlib.import_module(f"benchmarks.{name}") for name in chosen}
    with_options = {name: module.options() for name, module in sections.items() if hasattr(module, "options")}
    if unknown and not with_options:
        parser.error(
            f"there is no section {unknown[0]!r}: choose among {', '.join((*SECTIONS, *ON_REQUEST))}"
        )
    if more and not with_options:
        parser.error(f"no option {more[0]!r} of {', '.join(chosen)}")
    for name, module in sections.items():
        given = (with_options[name].parse_args([*unknown, *more]),) if name in with_options else ()
        for line in module.report(*given):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
