"""What workers do together, on ranks that are stood in for."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from overlayccl_core.backends.rank import compile_together


def test_each_file_is_compiled_by_one_rank_and_what_is_no_python_by_none(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.py" for name in ("a", "b", "c", "wrong")]
    for file in files:
        file.write_text("x = 1\n" if file.stem != "wrong" else "x = (\n")
    compiled: list[set[str]] = []
    for index in range(2):
        rank: Any = SimpleNamespace(index=index, ranks=2, meet=lambda: None)
        before = set().union(*compiled)
        compile_together(rank, files)
        there = {file.stem for file in files if Path(importlib.util.cache_from_source(str(file))).exists()}
        compiled.append(there - before)
    assert compiled == [{"a", "c"}, {"b"}]
