"""confirm: time the choice again, beside the arms that need no search, in launches that choose nothing.

The fastest looks faster than it is in the launches of its choice. So reported figures come from these launches.
They run the file to be deployed, after its own selftest. First its values are checked at every Case. Then it is
trained in every model, after a check of its gradients, beside all rivals by training
(`evidence.splits.arms_to_confirm`). At Cases of no model it is timed alone. If another arm takes the place of the
choice (`evidence.standing`), the file is a new one, not yet run: its values are checked at each of its Cases,
before the run goes on.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from overlayccl_core.backends.backend import backend_of
from overlayccl_core.backends.measured import Job, TimingSettings
from overlayccl_core.configuration.deployment import Deployment, load
from overlayccl_core.configuration.models import Model, problems_of
from overlayccl_core.configuration.models import load as load_model
from overlayccl_core.configuration.sections import ConfirmSection
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.evidence.choices import ProblemChoice, TrainingTables, choices_of, deployed_rows, rows_of
from overlayccl_core.evidence.deployment_files import file_of, printer_of
from overlayccl_core.evidence.faults import fault, fault_in_step
from overlayccl_core.evidence.overlap import to_take_apart
from overlayccl_core.evidence.predictions import place_of
from overlayccl_core.evidence.splits import arms_to_confirm, chosen_as, splits_of
from overlayccl_core.evidence.standing import StepTables, headlines_of, placed
from overlayccl_core.evidence.trained import memory_of, with_memory
from overlayccl_core.evidence.values import ProvenJob, value_check
from overlayccl_core.measuring.arms import NEEDS_NO_SEARCH, ArmName, arms_of
from overlayccl_core.measuring.progress import part_of
from overlayccl_core.measuring.purposes import Purpose
from overlayccl_core.program.json_form import loads
from overlayccl_core.program.numerics import NumericsClass
from overlayccl_core.program.problem import Place
from overlayccl_core.tables.confirmed import CONFIRMED
from overlayccl_core.tables.fingerprints import one_fingerprint
from overlayccl_core.tables.rule_job import RuleJob
from overlayccl_core.tables.steps import CONFIRMED_STAMPS, CONFIRMED_STEPS, STAMPS, STEPS
from overlayccl_core.timing.batch import TimingBatch, check_values, time_programs
from overlayccl_core.timing.partial import forget
from overlayccl_core.training.launches import train
from overlayccl_core.training.plan import StepSettings
from overlayccl_core.training.roster import Roster

Row = dict[str, Any]
HEAD = ("case", "direction", "arm", "candidate")
BATCH_NAME = "confirm"


def main(job: RuleJob) -> None:
    """Write the tables confirmed, confirmed_steps and confirmed_stamps."""
    tables = run(
        load(job.option("deployment")),
        Settings.from_part(job.option("settings")),
        choices_of(job),
        [load_model(name) for name in json.loads(job.option("models"))],
        TrainingTables(steps=job.read_all(STEPS), stamps=job.read_all(STAMPS)),
        job.partial,
        progress=job.say,
        code=job.option("code"),
    )
    job.write({table: tables[table.name] for table in (CONFIRMED, CONFIRMED_STEPS, CONFIRMED_STAMPS)})
    forget(job.partial, f"{BATCH_NAME}-*", job.all_outputs)


def run(
    deployment: Deployment,
    settings: Settings,
    problems: Mapping[str, ProblemChoice],
    models: Sequence[Model],
    trained: TrainingTables,
    partial_dir: Path,
    *,
    progress: Callable[[str], None],
    code: str = "",
) -> dict[str, list[Row]]:
    """Return the rows of `confirmed`, `confirmed_steps` and `confirmed_stamps`.

    Raises:
        ValueError: The file gives wrong values or gradients on the ranks. The message says if the emitted module of
            the same Program does so too, and so whose fault it is.
    """
    frames: dict[str | Path, pl.DataFrame] = {
        f"{name}: finalists": decided.finalists for name, decided in problems.items()
    }
    frames["steps"] = trained.steps
    fingerprint = one_fingerprint(frames, "the rules bench and train")
    launches = _Launches(deployment, settings, problems, Path(partial_dir), progress, code)
    steps: list[Row] = []
    stamps: list[Row] = []
    confirmed = launches.passes()
    for model in models:
        timed, told = launches.steps(model, trained)
        steps += timed
        stamps += told
    choices = [decided.choice for decided in problems.values()]
    after = pl.DataFrame(steps, schema=STEPS.schema), pl.DataFrame(stamps, schema=STAMPS.schema)
    tables = StepTables(
        steps=trained.steps, stamps=trained.stamps, confirmed_steps=after[0], confirmed_stamps=after[1]
    )
    alone = pl.DataFrame(confirmed, schema=CONFIRMED.schema)
    launches.files(placed(problems.values(), alone, headlines_of(choices, tables)), fingerprint or "")
    return {"confirmed": confirmed, "confirmed_steps": steps, "confirmed_stamps": stamps}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A Program with values to check, and the first columns of its rows. alone: it is then timed alone."""

    head: Row
    proven: ProvenJob
    alone: bool


class _Launches:
    """The launches after the choice."""

    def __init__(
        self,
        deployment: Deployment,
        settings: Settings,
        problems: Mapping[str, ProblemChoice],
        partial_dir: Path,
        progress: Callable[[str], None],
        code: str,
    ) -> None:
        self.deployment = deployment
        self.backend = backend_of(deployment)
        self.settings = settings.confirm
        self.problems = problems
        self.rows = {name: rows_of(decided) for name, decided in problems.items()}
        self.partial_dir = partial_dir
        self.progress = progress
        self.code = code

    # ------------------------------------------------------------------------------------------------------ alone
    def passes(self) -> list[Row]:
        """Return rows of `confirmed`. Values are checked before the first launch; failed Programs are not timed."""
        listed = self._chosen()
        proven = {key: one.proven for key, one in listed.items()}
        failed = self._looked_at(listed, "values", "what was chosen")
        heads = {key: one.head for key, one in listed.items() if one.alone and key not in failed}
        confirmed: list[Row] = []
        for number in range(self.settings.launches if heads else 0):
            of = f"passes, {number + 1} of {self.settings.launches}"
            batch = self._batch([proven[key].job for key in heads], f"{BATCH_NAME}-{number}", seed=number)
            timed = time_programs(batch, part_of(self.progress, of))
            launches = sorted({one.launch for one in timed})  # an interrupted batch has two
            before = confirmed[-1]["launch"] + 1 if confirmed else 0
            confirmed += [
                {
                    **heads[one.key],
                    **one.columns(proven[one.key].job.program),
                    "launch": before + launches.index(one.launch),
                }
                for one in sorted(timed, key=lambda one: one.launch)
            ]
        return confirmed

    def _chosen(self) -> dict[str, "_Listed"]:
        """List the chosen, and the arms beside it that need no search."""
        rows = ((name, *row, of.module) for name, of in self.problems.items() for row in rows_to_time(of))
        return self._listed(rows)

    def files(self, placed: Mapping[Place, str], fingerprint: str) -> None:
        """Check the values of every file with something in place of the chosen."""
        printer, library = printer_of(self.deployment), self.deployment.library
        listed: dict[str, _Listed] = {}
        for problem, decided in self.problems.items():
            source = file_of(problem, library, fingerprint, printer, decided, placed)
            if source not in (None, decided.module):
                there = deployed_rows(decided, placed)
                rows = [{**row, "arm": ArmName.DEPLOYED} for row in there.values()]
                rows += (
                    r for r in self.rows[problem] if place_of(r) in there and r["arm"] == ArmName.DEVELOPER
                )
                listed |= self._listed((problem, row, False, source) for row in rows)
        if listed:
            self._looked_at(listed, "files", "what takes the place of what was chosen")

    def _looked_at(self, listed: Mapping[str, "_Listed"], name: str, what: str) -> Collection[str]:
        """Check values on the ranks and return the failed keys; ValueError if a file is among them."""
        proven = {key: one.proven for key, one in listed.items()}
        values = self._batch([one.job for one in proven.values()], f"{BATCH_NAME}-{name}", seed=0)
        failed = check_values(values, value_check(proven.values()), part_of(self.progress, name))
        wrong = {key: failed[key].message for key in failed if listed[key].head["arm"] == ArmName.DEPLOYED}
        if wrong:
            raise ValueError(f"{what} cannot be deployed. {self._at_fault(wrong, listed, name)}")
        return failed.keys()

    def _listed(self, rows: Iterable[tuple[str, Row, bool, str]]) -> dict[str, "_Listed"]:
        """Return key of a job -> Program to check. rows: (Problem, row, whether it is timed alone, the file)."""
        listed: dict[str, _Listed] = {}
        for problem, row, alone, file in rows:
            key, program = " ".join((*place_of(row), row["arm"])), loads(row["program_json"])
            deployed = row["arm"] == ArmName.DEPLOYED
            source = file if deployed else self.backend.emit(program)
            listed[key] = _Listed(
                head={"problem": problem, **{k: row[k] for k in HEAD}},
                proven=ProvenJob(
                    job=Job(key=key, program=program, source=source, deployed=deployed),
                    numerics=NumericsClass(row["numerics"]),
                    reference=row["arm"] == ArmName.DEVELOPER,
                ),
                alone=alone,
            )
        return listed

    def _at_fault(self, wrong: Mapping[str, str], listed: Mapping[str, "_Listed"], name: str) -> str:
        """Name the wrong files and the cause. wrong: key of a file -> how it failed.

        The emitted modules of the same Programs run once beside the plain calls, their reference.
        """
        places = {place_of(listed[key].head) for key in wrong}
        beside = [
            one.proven for one in listed.values() if one.proven.reference and place_of(one.head) in places
        ]
        beside += [
            replace(proven, job=Job(key=key, program=program, source=self.backend.emit(program)))
            for key in wrong
            for proven in (listed[key].proven,)
            for program in (proven.job.program,)
        ]
        emitted = self._batch([one.job for one in beside], f"{BATCH_NAME}-emitted", seed=0)
        failed = check_values(emitted, value_check(beside), part_of(self.progress, "whose fault it is"))
        for batch in (name, "emitted"):  # the next run checks again
            forget(self.partial_dir, f"{BATCH_NAME}-{batch}", ())
        said = [
            f"{key}: {message}: {fault(emitted_right=key not in failed)}" for key, message in wrong.items()
        ]
        return ". ".join(said)

    def _batch(self, jobs: Sequence[Job], batch_name: str, *, seed: int) -> TimingBatch:
        return TimingBatch(
            jobs=jobs,
            deployment=self.deployment,
            settings=TimingSettings.of(self.settings, seed=seed),
            partial_dir=self.partial_dir,
            batch_name=batch_name,
            code=self.code,
        )

    # --------------------------------------------------------------------------------------------------- in steps
    def steps(self, model: Model, before: TrainingTables) -> tuple[list[Row], list[Row]]:
        """Launch a model's steps; return rows of `confirmed_steps` and `confirmed_stamps`."""
        arms = arms_beside(self.deployment, self.problems, model, before, self.settings)
        memory = memory_of(before.steps)
        arms.leave_unweighed([(m, arm) for name, m, arm in memory if name == model.name])
        training = arms.training(steps_of(self.settings), self.settings.launches)
        said = part_of(self.progress, model.name)
        trained = train(training, self.partial_dir, f"{BATCH_NAME}-{model.name}", self.code, said)
        for row in trained:
            if wrong := fault_in_step(row, trained, self._worst_numerics()):
                raise ValueError(f"what was chosen cannot be deployed: its files, in {wrong}")
        trained = with_memory(memory, trained)
        return trained, arms.stamps(trained)

    def _worst_numerics(self) -> NumericsClass:
        """Return the worst numerics class of all deployed Programs."""
        deployed = (row for rows in self.rows.values() for row in rows if row["arm"] == ArmName.DEPLOYED)
        return max((NumericsClass(row["numerics"]) for row in deployed), key=list(NumericsClass).index)


def rows_to_time(decided: ProblemChoice) -> Iterator[tuple[Row, bool]]:
    """Yield the deployed Programs of a Problem and those that need no search, and whether each is timed alone.

    A Program shared by arms comes once. It is timed alone if no model has its Case; then the chosen module is timed
    too.
    """
    chosen = {place_of(row): row for row in decided.choice.iter_rows(named=True)}
    seen: set[tuple[str, str, str]] = set()
    for row in rows_of(decided):
        place, arm = place_of(row), row["arm"]
        if place not in chosen:
            continue
        alone = chosen[place]["trained_in"] is None
        if arm != ArmName.DEPLOYED:
            wanted = (*NEEDS_NO_SEARCH, chosen[place]["arm"]) if alone else (ArmName.DEVELOPER,)
            program = (*place, row["program"])
            if arm not in wanted or program in seen:
                continue
            seen.add(program)
        yield row, alone


def arms_beside(
    deployment: Deployment,
    problems: Mapping[str, ProblemChoice],
    model: Model,
    before: TrainingTables,
    settings: ConfirmSection,
) -> Roster:
    """Return the deployed arm of a model, and the arms trained beside it."""
    rows = [row for decided in problems.values() for row in rows_of(decided)]
    arms = Roster(model, deployment, backend_of(deployment), rows)
    chosen = chosen_as(model.name, (decided.choice for decided in problems.values()))
    trained = splits_of(model.name, before.steps, before.stamps)
    apart = to_take_apart(trained, before.stamps) if settings.apart else {}
    wanted = arms_to_confirm(chosen, trained)
    plainest_first = arms_of(problems_of(model, deployment.ranks))
    files = {name: decided.module for name, decided in problems.items()}
    for microbatches in model.microbatches:
        names = {*wanted.get(microbatches, ()), *(arm for m, arm in apart if m == microbatches)}
        arms.add(
            microbatches,
            [one for one in plainest_first if one in names],
            partial(_purposes, microbatches, apart),
        )
        arms.add_deployed(microbatches, files)
        arms.add_framework(microbatches, names)
    return arms


def _purposes(
    microbatches: int, apart: Mapping[tuple[int, str], Sequence[Purpose]], arm: str
) -> tuple[Purpose, ...]:
    """Return the purposes of an arm; apart: those of the arms whose steps are taken apart."""
    return (Purpose.TIMED, *apart.get((microbatches, arm), ()))


def steps_of(settings: ConfirmSection) -> StepSettings:
    """Return the numbers of steps."""
    return StepSettings(
        seconds=settings.step_seconds,
        minimum_steps=settings.minimum_steps,
        maximum_steps=settings.maximum_steps,
        in_turns=True,
    )
