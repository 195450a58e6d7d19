"""What a style is: a file of search/styles/ that says which calls of a language model a search is made of."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from overlayccl_core import loader
from overlayccl_core.asking.conversation import User
from overlayccl_core.search.proposal import Sketch

FOLDER = "search/styles"


class Purpose(StrEnum):
    """What a call is for. Each has a file of its name in search/prompts/."""

    IDEAS = "ideas"
    IMPLEMENT = "implement"
    REFINE = "refine"
    REPAIR = "repair"
    MEND = "mend"
    TURN = "turn"
    ISLAND = "island"


class StylePlugIn(Protocol):
    """opening(desk, standing): the first conversation, what its first message is for, and that message.

    most_calls(search): of the model in a search of one Case, at most.

    propose(desk, standing): sketches, made one at a time; each was tried when the next is asked for. NoAnswer ends
    it: it is raised where asking on is in vain.
    """

    most_calls: Callable[[Any], int]
    opening: Callable[[Any, Any], tuple[Any, Purpose, User]]
    propose: Callable[[Any, Any], Iterator[Sketch]]


def style(name: str) -> StylePlugIn:
    """The style of that name; ValueError naming those there are."""
    return loader.plug_in(StylePlugIn, FOLDER, name)
