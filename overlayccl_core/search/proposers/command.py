"""command: any program proposes, a local model, another vendor's or a person (asking/command.py has the form)."""

import shlex
import shutil
from pathlib import Path

from pydantic import Field, field_validator

from overlayccl_core.asking.command import Command
from overlayccl_core.search import model_search

SCRIPTS = (".py", ".sh")  # endings of files; a word with / inside may be a model's name
PATHS = ("/", "./", "../")  # beginnings of files and folders


class Search(model_search.Search):
    """A search by a program, then by the rules."""

    command: str = Field(description="the program and its arguments, as in a shell; no shell runs it")
    command_seconds: float = Field(default=600, gt=0, description="cuts an answer that takes so long")

    @field_validator("command")
    @classmethod
    def _words(cls, command: str) -> str:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"cannot be split into words ({error}): close what is quoted") from None
        if not words:
            raise ValueError("must name a program")
        return command


def language_model(search: Search) -> Command:
    """Return the model."""
    return Command(shlex.split(search.command), search.command_seconds)


def check(search: Search) -> None:
    """Raise ValueError if the program, or a file among its arguments, does not exist."""
    program, *arguments = shlex.split(search.command)
    if shutil.which(program) is None:
        raise ValueError(f"command: there is no program {program!r} here: give its path, or install it")
    files = (word for word in arguments if word.startswith(PATHS) or word.endswith(SCRIPTS))
    for file in files:
        if not any(one.isspace() for one in file) and not Path(file).exists():
            raise ValueError(
                f"command: there is no {file} in {Path.cwd()}: give the path of one that is there"
            )
