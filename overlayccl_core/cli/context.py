"""What every command needs: the configuration, the deployment, and the tables of a run."""

import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from overlayccl_core.configuration.cases import NoCases, cases_of
from overlayccl_core.configuration.deployment import Deployment
from overlayccl_core.configuration.deployment import load as load_deployment
from overlayccl_core.configuration.presets import DEFAULT
from overlayccl_core.configuration.profile import Profile
from overlayccl_core.configuration.profile import load as load_profile
from overlayccl_core.configuration.settings import Settings
from overlayccl_core.configuration.settings import read as read_settings
from overlayccl_core.deployments.capabilities import Capabilities
from overlayccl_core.program.case import Case
from overlayccl_core.report.tree import Tree
from overlayccl_core.tables.capabilities import CAPABILITIES
from overlayccl_core.tables.fidelity import FIDELITY
from overlayccl_core.tables.remake import PROFILE, run_command
from overlayccl_core.tables.sidecar import read_unchanged
from overlayccl_core.tables.table import Table
from overlayccl_core.tables.theta import THETA


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A deployment and a preset, as configured in the repository; `profile` if one was asked for."""

    root: Path
    settings: Settings
    deployment: Deployment
    profile: Profile | None = None

    @property
    def results(self) -> Path:
        """The folder of the run's tables."""
        return self.root / "results" / self.settings.tree

    @property
    def tree(self) -> Tree | None:
        """The run; None before there is one."""
        return Tree(path=self.results) if self.results.is_dir() else None

    def table(self, table: Table, name: str) -> pl.DataFrame | None:
        """Return a table of the deployment; None before a run made it. ValueError if it is damaged or changed."""
        path = self.results / f"{name}.parquet"
        return read_unchanged(table, path) if path.exists() else None

    def cases(self, problem: str) -> list[Case]:
        """Return the configured Cases of a Problem, measured by a run or not; [] if there are none."""
        try:
            return cases_of(self.settings, self.deployment, problem, self.root)
        except NoCases:
            return []

    def capabilities(self) -> Capabilities | None:
        """Return the selftest's capabilities; None before it ran."""
        rows = self.table(CAPABILITIES, "capabilities")
        return None if rows is None else Capabilities.from_rows(rows.iter_rows(named=True))

    def theta_tables(self) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return (theta, fidelity); None before the fit."""
        theta, fidelity = self.table(THETA, "theta"), self.table(FIDELITY, "fidelity")
        return None if theta is None or fidelity is None else (theta, fidelity)

    def fitted(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return (theta, fidelity). ValueError with the command, before the fit."""
        tables = self.theta_tables()
        if tables is None:
            raise ValueError(self.unfitted)
        return tables

    @property
    def unfitted(self) -> str:
        """The message about missing prices before a fit, with the command."""
        theta = self.results / "theta.parquet"
        return f"{self.results}: nothing was fitted yet, so nothing has a price. Run: {self.command(theta)}"

    @property
    def asked_for(self) -> str:
        """The deployment, and the preset unless it is the default one, for messages."""
        preset = self.settings.preset
        return self.deployment.name + ("" if preset == DEFAULT else f" with preset {preset}")

    @property
    def place(self) -> str:
        """The options by which a command means this tree, ` --preset smoke`; empty if it is the configured one."""
        usual = read_settings(self.root / "config" / "config.yaml")
        meant = {"deployment": self.deployment.name, "preset": self.settings.preset}
        return "".join(f" --{key} {name}" for key, name in meant.items() if name != getattr(usual, key))

    def command(self, *targets: Path) -> str:
        """Return the command for tables of this tree or (without targets) all of it, to be typed in the root."""
        return run_command(self.results, *(path.relative_to(self.root) for path in targets))


def context(arguments: Namespace, **more: str) -> Context:
    """Read --root, --profile, --deployment and --preset, and `more` keys of --config.

    Raises:
        ValueError: Names the file, the field and the mend.
    """
    root: Path = arguments.root
    profile = load_profile(arguments.profile, root) if arguments.profile else None
    if profile is not None:
        os.environ[PROFILE] = profile.name
    given = {"deployment": arguments.deployment, "preset": arguments.preset, **more}
    overrides = {
        **(profile.overrides if profile else {}),
        **{key: value for key, value in given.items() if value},
    }
    config = root / "config" / "config.yaml"
    named = read_settings(config, overrides).deployment
    deployment = load_deployment(root / "config" / "deployments" / f"{named}.yaml")
    settings = read_settings(config, overrides, usual=deployment.preset)
    return Context(root=root, settings=settings, deployment=deployment, profile=profile)
