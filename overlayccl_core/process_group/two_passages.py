"""The passage of a script with both: sums of some groups in fewer bytes, calls of all others in proven ways."""

from typing import Any

from .group import Group
from .lossy import Lossy
from .tuned import Tuned
from .ways import stride


class TwoPassages:
    """Two passages: each group has one of them for all its calls.

    Args:
        lossy: Of the groups that its setting means.
        tuned: Of all others.
    """

    def __init__(self, lossy: Lossy, tuned: Tuned) -> None:
        self._lossy, self._tuned = lossy, tuned
        self._of: dict[Group, Lossy | Tuned] = {}

    def groups_wait(self) -> None:
        """Make what is under way before a group is made."""
        self._tuned.groups_wait()

    def group_begins(self, group: Group) -> None:
        """Choose by the ranks of a group that is about to be connected."""
        ranks = group.made[-1]
        self._of[group] = self._lossy if self._lossy.means(len(ranks), stride(ranks)) else self._tuned
        self._of[group].group_begins(group)

    def group_ends(self, group: Group) -> None:
        """Make what is under way in a group that is about to be destroyed."""
        self._of.pop(group).group_ends(group)

    def __call__(self, group: Group, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call, behind what waits in bundles: ranks of this group may need it."""
        of = self._of[group]
        if of is self._lossy:
            self._tuned.groups_wait()
        return of(group, method, args, kwargs)
