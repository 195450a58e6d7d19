"""python -m benchmarks [SECTION ...]: speed of the core at the size of a large cluster."""

import argparse
import importlib

SECTIONS = ("candidate", "proof", "emitted", "groups")
ON_REQUEST = (
    "sweep",
    "on_ranks",
    "from_developer",
    "deployed_step",
    "race",
    "floor",
    "cold",
    "hlo",
)  # minutes on real ranks, of a finished run, or of the real torch_xla


def main() -> None:
    """Print the sections that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"{', '.join(SECTIONS)} (all by default); {', '.join(ON_REQUEST)}",
    )
    chosen = parser.parse_args().sections or SECTIONS
    unknown = [name for name in chosen if name not in (*SECTIONS, *ON_REQUEST)]
    if unknown:
        parser.error(
            f"there is no section {unknown[0]!r}: choose among {', '.join((*SECTIONS, *ON_REQUEST))}"
        )
    for name in chosen:
        for line in importlib.import_module(f"benchmarks.{name}").report():
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
