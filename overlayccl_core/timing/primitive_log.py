"""The results of a selftest's primitives, kept as they come: a killed run continues behind them."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from overlayccl_core.tables.atomic import write_text

FILE = "tried.json"
PASS, FAIL, UNSUPPORTED, NOT_APPLICABLE = "pass", "fail", "unsupported", "not_applicable"


@dataclass(frozen=True, slots=True)
class PrimitiveResult:
    """The result of a check: pass, fail (wrong values), unsupported or not_applicable, with the observation."""

    outcome: str
    detail: str


class PrimitiveLog(dict[str, PrimitiveResult]):
    """Results by name of the primitive, in a folder's file. Wrong values are not kept: they end the selftest."""

    def __init__(self, folder: Path, progress: Callable[[str], None]) -> None:
        self._path = folder / FILE
        if self._path.exists():
            data = json.loads(self._path.read_text())
            self.update({name: PrimitiveResult(**one) for name, one in data.items()})
            progress(f"selftest: {len(self)} primitives were tried before, going on behind them")

    def keep(self, seen: Mapping[str, PrimitiveResult]) -> None:
        self.update(seen)
        kept = {name: asdict(one) for name, one in self.items() if one.outcome != FAIL}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self._path, json.dumps(kept))

    def forget(self) -> None:
        shutil.rmtree(self._path.parent, ignore_errors=True)
        self.clear()
