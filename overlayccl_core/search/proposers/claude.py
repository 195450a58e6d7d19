"""claude: Claude proposes (asking/claude.py has its requirements)."""

from pydantic import Field

from overlayccl_core.asking.claude import Claude, ClaudeSettings
from overlayccl_core.search import model_search


class Search(model_search.Search):
    """A search by Claude, then by the rules."""

    model: str = Field(min_length=1, description="as its vendor names it: claude-...")
    claude: ClaudeSettings = Field(default=ClaudeSettings(), description="how it is reached")


def language_model(search: Search) -> Claude:
    """Return the model."""
    return Claude(search.claude)


def check(search: Search) -> None:
    """Raise ValueError if it cannot be asked: no package, no key."""
    language_model(search).check()
