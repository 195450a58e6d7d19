"""What a language model is told: the prompts, filled in from the Problem, the deployment and the search.

Figures have two significant digits: what is measured anew and comes out alike is asked with equal words, which were
answered already. Prompts name no strategy as the one to find.
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
from overlayccl_core.costmodel.theta import Coefficient, Status
from overlayccl_core.deployments.capabilities import shape_text
from overlayccl_core.measuring.figures import figures
from overlayccl_core.program import language
from overlayccl_core.program.problem import Direction, Problem
from overlayccl_core.program.problem_text import families, segments_text
from overlayccl_core.program.scopes import BUILTINS
from overlayccl_core.program.source_check import ADVICE, WORDS
from overlayccl_core.program.text_form import text as program_text
from overlayccl_core.program.ways import with_ways
from overlayccl_core.search.candidate import INVENTED, Candidate, Origin
from overlayccl_core.search.facts import DeploymentFacts
from overlayccl_core.search.proposer import Standing
from overlayccl_core.search.style import Purpose

DIGITS = 2
MOST_FAMILIES = 30  # that are told, the cheapest
MOST_LINES = 60  # of a Program as text
SYSTEM = "prompts/system.md"
PROMPTS = {
    Purpose.IDEAS: "prompts/ideas.md",
    Purpose.IMPLEMENT: "prompts/implement.md",
    Purpose.REFINE: "prompts/refine.md",
    Purpose.REPAIR: "prompts/repair.md",
    Purpose.MEND: "prompts/mend.md",
    Purpose.TURN: "prompts/turn.md",
    Purpose.ISLAND: "prompts/island.md",
}
SHARED = "prompts/standing.md"  # included by others
_NOT_LINEAR_ONLY = ("mul", "div", "maximum", "exp", "log", "reduce_max", "pick", "one_hot")


@dataclass(frozen=True, kw_only=True)
class Briefing:
    """show_scores: whether prices, and what they are made of, are told."""

    standing: Standing
    facts: DeploymentFacts
    show_scores: bool

    @property
    def problem(self) -> Problem:
        """What is to be solved."""
        return self.standing.problem

    @cached_property
    def system(self) -> str:
        """What all prompts of a search begin with: language, Problem, deployment."""
        return self._filled(SYSTEM)

    def prompt(self, purpose: Purpose, **more: Any) -> str:
        """The prompt of a purpose. more: what its file asks for besides."""
        return self._filled(PROMPTS[purpose], **more)

    def _filled(self, file: str, **more: Any) -> str:
        return _environment().get_template(file).render(brief=self, **more).strip() + "\n"

    # ------------------------------------------------------------ the language
    @property
    def operations(self) -> list[str]:
        """`all_gather(x, dim, groups): what it does`, for every word that this Problem admits."""
        words = sorted(WORDS - {"Library"} - (set(_NOT_LINEAR_ONLY) if self.problem.linear else set()))
        return [_operation(getattr(language, word), word) for word in words]

    @property
    def functions(self) -> str:
        """Python's functions that the language has."""
        return " ".join(sorted(BUILTINS))

    @property
    def not_in_language(self) -> list[str]:
        """`while: use for ... in range(...)`."""
        return list(dict.fromkeys(f"{construct}: {mend}" for construct, mend in ADVICE.values()))

    # ------------------------------------------------------------ the Problem
    @property
    def definition(self) -> str:
        """What the Problem's file says that it is."""
        return inspect.cleandoc(inspect.getdoc(catalog.plug_in(self.problem.case.problem)) or "")

    @property
    def reference(self) -> str:
        """The source of the plainest right strategy, which says what must come out."""
        plugin = catalog.plug_in(self.problem.case.problem)
        forward = catalog.build(self.problem.case).nonlinear
        if self.problem.direction is Direction.BACKWARD and forward is not None:
            assert forward.backward_reference is not None
            return inspect.getsource(forward.backward_reference)
        return inspect.getsource(plugin.reference)

    @property
    def library(self) -> str:
        """The sources of the known strategies and of the ways that they share."""
        return with_ways(catalog.library_source(self.problem.case.problem))

    @property
    def inputs(self) -> list[str]:
        """Ports that are read."""
        return families(self.problem.inputs, full=True)

    @property
    def outputs(self) -> list[str]:
        """Ports that are written."""
        return families(self.problem.outputs, full=True)

    @property
    def segments(self) -> list[str]:
        """The model's own work around them."""
        return segments_text(self.problem.segments)

    @property
    def parameters(self) -> list[str]:
        """`p.world_size = 4`."""
        return [f"p.{name} = {_short(value)}" for name, value in self.problem.parameters.items()]

    # ------------------------------------------------------------ the deployment
    @property
    def coefficients(self) -> list[str]:
        """What the cost model was fitted to here."""
        return [_coefficient(c) for c in self.facts.theta.coefficients if c.status is not Status.UNIDENTIFIED]

    @property
    def refused(self) -> list[str]:
        """Calls that the library does not take."""
        rows = self.facts.capabilities.refused if self.facts.capabilities else ()
        return [
            f"{row.call.operation} in groups of {shape_text(row.call.shape)}, {row.call.dtype.value}, "
            f"from {row.call.payload_bytes} bytes on: {without_places(' '.join(row.evidence.split()))[:200]}"
            for row in rows
        ]

    @property
    def memory_budget_bytes(self) -> int | None:
        """Of a rank; None: no limit."""
        return self.facts.memory_budget_bytes

    # ------------------------------------------------------------ the search
    @property
    def ways(self) -> list[str]:
        """A line for each known strategy at this Case."""
        listed = [c for c in self.standing.archive.candidates if c.origin in (Origin.DEVELOPER, Origin.KNOWN)]
        return [f"{self.name(c)}: {self.line(c)}" for c in self._ordered(listed) if not c.recipe.steps]

    @property
    def elites(self) -> list[str]:
        """A line for the best of each of the cheapest families, and what it is made from."""
        elites = self._ordered(self.standing.elites)
        lines = [f"{c.family}: {self.name(c)}: {self.line(c)}" for c in elites[:MOST_FAMILIES]]
        more = len(elites) - len(lines)
        return [*lines, f"... and {more} dearer families"] if more else lines

    def name(self, candidate: Candidate) -> str:
        """What a candidate is made from: `merged_over_microbatches, then split(all_reduce:world:1, 2)`."""
        recipe = candidate.recipe
        base = recipe.base if isinstance(recipe.base, str) else "the transpose of the forward's"
        base = base.rpartition(":")[2] if base.startswith("source:") else base
        steps = [f"{rule}({', '.join(filter(None, (site, knob)))})" for rule, site, knob in recipe.steps]
        return ", then ".join([base, *steps])

    def line(self, candidate: Candidate) -> str:
        """What it costs, of what, and why it cannot run here if so; nothing of prices where none are shown."""
        cannot = "" if candidate.feasible else f"cannot run here: {candidate.legal.message}"
        count = f"{len(candidate.program.collectives)} collectives"
        price = price_text(candidate.price) if self.show_scores else ""
        return "; ".join(filter(None, (count, price, cannot)))

    def program(self, candidate: Candidate) -> str:
        """A Program as text, its first lines."""
        lines = program_text(candidate.program).splitlines()
        more = len(lines) - MOST_LINES
        return "\n".join([*lines[:MOST_LINES], f"... {more} more lines"] if more > 0 else lines)

    def _ordered(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Cheapest first; where prices are not shown their order tells none."""
        if self.show_scores:
            return sorted(candidates, key=lambda c: c.order)
        return sorted(candidates, key=lambda c: (c.origin in INVENTED, c.program.digest))


def price_text(price: Price) -> str:
    """`1,200 us (launch 210, collectives 990)`; what has no price says so."""
    if price.us is None:
        return f"no price: nothing was measured of {', '.join(price.missing)}"
    parts = [
        f"{term.value} {two(us)}" for term, us in sorted(price.terms.items(), key=lambda t: -t[1]) if us > 0
    ]
    return f"{two(price.us)} us ({', '.join(parts)})"


def two(value: float) -> str:
    """A figure as prompts have them."""
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
