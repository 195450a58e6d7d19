"""Prompts for a language model, filled in from the Problem, the deployment and the search.

Figures have two significant digits. Similar results of a new measurement then give equal prompts, with recorded
answers. Prompts name no strategy as the one to find.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jinja2

from overlayccl_core import catalog
from overlayccl_core.asking.clean import without_places
from overlayccl_core.costmodel.price import Price
from overlayccl_core.costmodel.theta import Coefficient, FitStatus
from overlayccl_core.deployments.capabilities import shape_text
from overlayccl_core.measuring.figures import figures
from overlayccl_core.program import language
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.problem_text import families, segments_text
from overlayccl_core.program.rowwise import OPERATIONS
from overlayccl_core.program.scopes import BUILTINS
from overlayccl_core.program.source_check import ADVICE, WORDS
from overlayccl_core.program.text_form import text as program_text
from overlayccl_core.program.ways import with_ways
from overlayccl_core.search.candidate import INVENTED, Candidate, Origin
from overlayccl_core.search.judge import DeploymentFacts
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import AskPurpose

DIGITS = 2
MOST_FAMILIES = 30  # shown, the cheapest
MOST_LINES = 60  # of a Program as text
SYSTEM = "prompts/system.md"
PROMPTS = {
    AskPurpose.IDEAS: "prompts/ideas.md",
    AskPurpose.IMPLEMENT: "prompts/implement.md",
    AskPurpose.REFINE: "prompts/refine.md",
    AskPurpose.REPAIR: "prompts/repair.md",
    AskPurpose.MEND: "prompts/mend.md",
    AskPurpose.TURN: "prompts/turn.md",
    AskPurpose.ISLAND: "prompts/island.md",
}
SHARED = "prompts/standing.md"  # included by others
_OPERATIONS = {"reduce_max": "row_max"} | {name: name for name in OPERATIONS if not OPERATIONS[name].linear}


@dataclass(frozen=True, kw_only=True)
class Briefing:
    """The data of prompts. show_scores: whether they show prices and their terms."""

    standing: Standing
    facts: DeploymentFacts
    show_scores: bool

    @property
    def problem(self) -> Problem:
        """The Problem to solve."""
        return self.standing.problem

    @cached_property
    def system(self) -> str:
        """The beginning of all prompts of a search: language, Problem, deployment."""
        return self._filled(SYSTEM)

    def prompt(self, purpose: AskPurpose, **more: Any) -> str:
        """Return the prompt of a purpose. more: the other variables of its file."""
        return self._filled(PROMPTS[purpose], **more)

    def _filled(self, file: str, **more: Any) -> str:
        return _environment().get_template(file).render(brief=self, **more).strip() + "\n"

    # ------------------------------------------------------------ the language
    @property
    def operations(self) -> list[str]:
        """`all_gather(x, dim, groups): description`, for every word this Problem admits."""
        brought = catalog.in_direction(self.problem.case, self.problem.direction).nonlinear
        admitted = brought.operations if brought else frozenset()
        refused = {word for word, operation in _OPERATIONS.items() if operation not in admitted}
        words = sorted(WORDS - {"Library"} - refused)
        return [_operation(getattr(language, word), word) for word in words]

    @property
    def functions(self) -> str:
        """The language's Python functions."""
        return " ".join(sorted(BUILTINS))

    @property
    def not_in_language(self) -> list[str]:
        """`while: use for ... in range(...)`."""
        return list(dict.fromkeys(f"{construct}: {mend}" for construct, mend in ADVICE.values()))

    # ------------------------------------------------------------ the Problem
    @property
    def definition(self) -> str:
        """The docstring of the Problem's file."""
        return inspect.cleandoc(inspect.getdoc(catalog.plug_in(self.problem.case.problem)) or "")

    @property
    def reference(self) -> str:
        """The source of the plainest right strategy; it defines the results."""
        plugin = catalog.plug_in(self.problem.case.problem)
        forward = catalog.build(self.problem.case).nonlinear
        if self.problem.direction is Direction.BACKWARD and forward is not None:
            assert forward.backward_reference is not None
            return inspect.getsource(forward.backward_reference)
        return inspect.getsource(plugin.reference)

    @property
    def library(self) -> str:
        """The sources of the known strategies and of their shared ways."""
        return with_ways(catalog.library_source(self.problem.case.problem))

    @property
    def inputs(self) -> list[str]:
        """Ports to read."""
        return families(self.problem.inputs, full=True)

    @property
    def outputs(self) -> list[str]:
        """Ports to write."""
        return families(self.problem.outputs, full=True)

    @property
    def segments(self) -> list[str]:
        """The model's own work around the ports."""
        return segments_text(self.problem.segments)

    @property
    def parameters(self) -> list[str]:
        """`p.world_size = 4`."""
        return [f"p.{name} = {_short(value)}" for name, value in self.problem.parameters.items()]

    # ------------------------------------------------------------ the deployment
    @property
    def coefficients(self) -> list[str]:
        """The coefficients of the cost model, fitted here."""
        coefficients = self.facts.theta.coefficients
        return [_coefficient(c) for c in coefficients if c.status is not FitStatus.UNIDENTIFIED]

    @property
    def refused(self) -> list[str]:
        """The calls refused by the library."""
        rows = self.facts.capabilities.refused if self.facts.capabilities else ()
        return [
            f"{row.call.operation} in groups of {shape_text(row.call.shape)}, {row.call.dtype.value}, "
            f"from {row.call.payload_bytes} bytes on: {without_places(' '.join(row.evidence.split()))[:200]}"
            for row in rows
        ]

    @property
    def memory_budget_bytes(self) -> int | None:
        """The memory budget of a rank; None: no limit."""
        return self.facts.memory_budget_bytes

    # ------------------------------------------------------------ the search
    @property
    def ways(self) -> list[str]:
        """A line for each known strategy at this Case."""
        listed = [c for c in self.standing.archive.candidates if c.origin in (Origin.DEVELOPER, Origin.KNOWN)]
        return [f"{self.name(c)}: {self.line(c)}" for c in self._ordered(listed) if not c.recipe.steps]

    @property
    def elites(self) -> list[str]:
        """A line for the best of each of the cheapest families, with its recipe."""
        elites = self._ordered(self.standing.elites)
        lines = [f"{c.family}: {self.name(c)}: {self.line(c)}" for c in elites[:MOST_FAMILIES]]
        more = len(elites) - len(lines)
        return [*lines, f"... and {more} dearer families"] if more else lines

    def name(self, candidate: Candidate) -> str:
        """Return a candidate's recipe: `merged_over_microbatches, then split(all_reduce:world:1, 2)`."""
        recipe = candidate.recipe
        base = recipe.base if isinstance(recipe.base, str) else "the transpose of the forward's"
        base = base.rpartition(":")[2] if base.startswith("source:") else base
        steps = [f"{rule}({', '.join(filter(None, (site, knob)))})" for rule, site, knob in recipe.steps]
        return ", then ".join([base, *steps])

    def line(self, candidate: Candidate) -> str:
        """Return collectives, price by term (if scores are shown), and why it cannot run here, if so."""
        cannot = "" if candidate.feasible else f"cannot run here: {candidate.legal.message}"
        count = f"{len(candidate.program.collectives)} collectives"
        price = price_text(candidate.price) if self.show_scores else ""
        return "; ".join(filter(None, (count, price, cannot)))

    def program(self, candidate: Candidate) -> str:
        """Return the first lines of a Program as text."""
        lines = program_text(candidate.program).splitlines()
        more = len(lines) - MOST_LINES
        return "\n".join([*lines[:MOST_LINES], f"... {more} more lines"] if more > 0 else lines)

    def _ordered(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Sort cheapest first; without shown scores, by an order independent of price."""
        if self.show_scores:
            return sorted(candidates, key=lambda c: c.order)
        return sorted(candidates, key=lambda c: (c.origin in INVENTED, c.program.digest))


def price_text(price: Price) -> str:
    """Return `1,200 us (launch 210, collectives 990)`, or why there is no price."""
    if price.us is None:
        return f"no price: nothing was measured of {', '.join(price.missing)}"
    parts = [
        f"{term.value} {two(us)}" for term, us in sorted(price.terms.items(), key=lambda t: -t[1]) if us > 0
    ]
    return f"{two(price.us)} us ({', '.join(parts)})"


def two(value: float) -> str:
    """Format a figure for prompts."""
    return figures(value, DIGITS)


def _coefficient(one: Coefficient) -> str:
    assert one.value is not None
    between = "" if one.low is None or one.high is None else f" ({two(one.low)}..{two(one.high)})"
    return f"{one.column.name}: {two(one.value)}{between} {one.column.unit} [{one.column.term.value}]"


def _operation(function: Any, word: str) -> str:
    described = (inspect.getdoc(function) or "").split("\n\n")[0]
    return f"{word}({', '.join(_arguments(function))}): {' '.join(described.split())}"


def _arguments(function: Any) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        yield name if default is parameter.empty else f"{name}={default!r}"


def _short(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 200 else f"{said[:160]}... ({len(value)} items)"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # text for a model, no HTML
    )
    environment.globals["two"] = two
    return environment
