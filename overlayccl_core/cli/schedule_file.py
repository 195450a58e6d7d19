"""FILE.xml, FILE.json: a schedule that others wrote, and the Case that it solves."""

from pathlib import Path

from overlayccl_core import catalog
from overlayccl_core.cli.context import Context
from overlayccl_core.configuration.cases import case_of
from overlayccl_core.configuration.deployment import load
from overlayccl_core.configuration.sizes import MIB, bytes_text
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import DType, Rejected
from overlayccl_core.program.problem import Problem
from overlayccl_core.schedules.reading import read
from overlayccl_core.schedules.schedule import Schedule, entry

SUFFIXES = (".xml", ".json")
LARGEST = 32 * MIB  # twenty times the largest published one
PAYLOAD = MIB


def is_schedule(text: str) -> bool:
    """Whether a STRATEGY is the file of a schedule."""
    return Path(text).suffix.lower() in SUFFIXES


def read_schedules(name: str, collective: str | None) -> list[Schedule]:
    """Return the schedule of a file, once for each use that it is for.

    Raises:
        ValueError: There is no such file, or it is no schedule.
        Rejected: It is none that can run.
    """
    text = text_of(name, LARGEST, "give MSCCL XML, or an execution plan of MSCCL++ as JSON")
    try:
        return read(text, collective)
    except Rejected as error:
        raise Rejected(f"{name}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def text_of(name: str, largest: int, mend: str) -> str:
    """Return a file's text. ValueError, with the mend: there is none, it has more bytes, or it is not UTF-8."""
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"{name}: there is no such file: {mend}")
    if (size := path.stat().st_size) > largest:
        raise ValueError(f"{name}: {bytes_text(size)} are too many (limit {bytes_text(largest)}): {mend}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: no text file in UTF-8: {mend}") from None


def case_for(schedule: Schedule, where: Context, payload: int | None) -> Case:
    """Return its Case at about so many bytes a rank: on the deployment's ranks, or else on so many of one node."""
    elements = (payload or PAYLOAD) // DType.FLOAT32.bytes
    problem, fields = entry(schedule, elements)
    if where.deployment.ranks == schedule.ranks:
        return case_of(problem, fields, where.deployment)
    return catalog.case(problem, fields, ranks=schedule.ranks, ranks_per_node=schedule.ranks)


def check_ranks(where: Context, problem: Problem) -> None:
    """Raise ValueError, with deployments that have them, if the deployment has not the ranks of a Case."""
    case = problem.case
    asked = case.ranks * case.groups
    if asked == where.deployment.ranks:
        return
    folder = where.root / "config" / "deployments"
    alike = [path.stem for path in sorted(folder.glob("*.yaml")) if load(path).ranks == asked]
    mend = f"choose --deployment {' or '.join(alike)}" if alike else f"write a deployment of {asked} ranks"
    raise ValueError(
        f"{case.id} has {asked} ranks, and {where.deployment.name} {where.deployment.ranks}: {mend}"
    )
