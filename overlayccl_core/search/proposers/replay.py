"""replay: recorded answers propose again. Free and deterministic."""

from pathlib import Path

from pydantic import Field

from overlayccl_core.asking.replay import Replay
from overlayccl_core.search import model_search


class Search(model_search.Search):
    """A search by recorded answers, then by the rules."""

    answers: str = Field(
        description="folder with recorded answers: the `answers` of a search, or a whole results tree"
    )


def language_model(search: Search) -> Replay:
    """Return the model."""
    return Replay(Path(search.answers))


def check(search: Search) -> None:
    """Raise ValueError if the folder does not exist."""
    if not Path(search.answers).is_dir():
        raise ValueError(f"answers: there is no folder {search.answers}: name one that has recorded answers")
