"""Finds of searches, by their name in a run: `found-` and digits of the value_digest."""

import difflib
import json
from dataclasses import dataclass

from overlayccl_core import catalog
from overlayccl_core.cli.context import Context
from overlayccl_core.program.case import Case
from overlayccl_core.program.kinds import NotApplicable
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.program import Program
from overlayccl_core.rewrites.recipe import Recipe, SourceOf, replay, sources
from overlayccl_core.rewrites.rule import DoesNotApply
from overlayccl_core.sandbox.tracing import trace_confined
from overlayccl_core.tables.candidate_columns import is_found
from overlayccl_core.tables.candidates import CANDIDATES
from overlayccl_core.tables.cases import CASES
from overlayccl_core.tables.remake import remake
from overlayccl_core.tables.sketches import SKETCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A candidate found by a search, with its place. source_of: returns the source its recipe begins with."""

    name: str
    case: Case
    direction: Direction
    recipe: Recipe
    value_digest: str
    source_of: SourceOf
    remake: str

    def at(self, problem: Problem) -> Program:
        """Replay it. NotApplicable if its steps do nothing at another Case; ValueError if its Program changed."""
        try:
            program = replay(self.recipe, problem, self.source_of, trace_confined)
        except DoesNotApply as error:
            raise NotApplicable(str(error)) from None
        its_own = (problem.case, problem.direction) == (self.case, self.direction)
        if its_own and program.value_digest != self.value_digest:
            raise ValueError(
                f"{self.name} was found by another release: its recipe makes another Program here. Search again: "
                f"{self.remake}"
            )
        return program


def find(where: Context, problem: str, name: str) -> Find:
    """Return the candidate of a name. ValueError: No search of the Problem has found it in this tree."""
    found = where.tree.of_searches(CANDIDATES, problem) if where.tree else None
    rows = [] if found is None else list(found.iter_rows(named=True))
    row = next((row for row in rows if row["candidate"] == name), None)
    if row is None:
        raise ValueError(_unknown(where, problem, name, [row["candidate"] for row in rows]))
    folder = f"problems/{problem}"
    path = where.results / folder / "search" / row["search"] / "candidates.parquet"
    cases = where.table(CASES, f"{folder}/cases")
    listed = [] if cases is None else list(cases.iter_rows(named=True))
    at = next((one for one in listed if one["case"] == row["case"]), None)
    if at is None:
        raise ValueError(
            f"{path}: {row['case']} is not among the Cases beside it; make them again: "
            f"{remake(where.results / folder / 'cases.parquet')}"
        )
    sketches = where.table(SKETCHES, f"{folder}/search/{row['search']}/sketches")
    texts = [] if sketches is None else sketches["source"].drop_nulls().to_list()
    return Find(
        name=name,
        case=catalog.case_from_row(at),
        direction=Direction(row["direction"]),
        recipe=Recipe.from_json(json.loads(row["recipe"])),
        value_digest=row["value_digest"],
        source_of=sources(texts),
        remake=remake(path),
    )


def _unknown(where: Context, problem: str, name: str, known: list[str]) -> str:
    searches = where.results / "problems" / problem / "search"
    found = [one for one in known if is_found(one)]
    if not found:
        said = f"{name}: no search of {problem} has found anything in {where.results} yet. "
        if problem not in where.settings.problems:
            return f"{said}Add it to `problems` in config/config.yaml, and run: {where.command()}"
        targets = [searches / search / "candidates.parquet" for search in where.settings.searches]
        return f"{said}Run: {where.command(*targets)}"
    close = difflib.get_close_matches(name, found, n=1)
    hint = (
        f"did you mean {close[0]!r}?" if close else "`overlayccl summary --all` lists those that were timed"
    )
    return f"{name}: none of the {len(found)} finds of {problem} in {searches} is called so: {hint}"
