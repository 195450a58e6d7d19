"""The interface of styles: a file of search/styles/ defines the model calls of a search."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.asking.conversation import User
from overlayccl_core.search.proposal import Sketch

FOLDER = "search/styles"


class AskPurpose(StrEnum):
    """The purpose of a call. Each has a file of its name in search/prompts/."""

    IDEAS = "ideas"
    IMPLEMENT = "implement"
    REFINE = "refine"
    REPAIR = "repair"
    MEND = "mend"
    TURN = "turn"
    ISLAND = "island"


class StylePlugIn(Protocol):
    """A way of asking a language model in a search.

    Attributes:
        opening: (desk, standing): the first conversation, the purpose of its first message, and this message.
        propose: (desk, standing): sketches, one at a time, each tried before the next is requested. It raises
            NoAnswer, and ends, if further questions are in vain.
    """

    most_calls: Callable[[Any], int]  # (search): the most calls of the model in a search of one Case
    opening: Callable[[Any, Any], tuple[Any, AskPurpose, User]]
    propose: Callable[[Any, Any], Iterator[Sketch]]


def style(name: str) -> StylePlugIn:
    """Return the style of that name. ValueError names the existing ones."""
    return loader.plug_in(StylePlugIn, FOLDER, name)
