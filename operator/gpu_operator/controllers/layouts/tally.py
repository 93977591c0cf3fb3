"""Names sorted into groups, kept as they change: the first few of a group, and how many it has."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

GroupT = TypeVar("GroupT", bound=Hashable)


class Tally(Generic[GroupT]):
    """Each name is in one group at most. A change costs a search, whatever there is."""

    def __init__(self) -> None:
        self._group: dict[str, GroupT] = {}
        self._names: dict[GroupT, list[str]] = {}

    def __len__(self) -> int:
        return len(self._group)

    @property
    def groups(self) -> Mapping[str, GroupT]:
        """Return the group of each name."""
        return self._group

    def put(self, name: str, group: GroupT) -> None:
        """Sort a name into a group, out of the one that it was in."""
        before = self._group.get(name)
        if before is not None:
            if before == group:
                return
            self.drop(name)
        self._group[name] = group
        insort(self._names.setdefault(group, []), name)

    def drop(self, name: str) -> None:
        """Forget a name, if it is known."""
        group = self._group.pop(name, None)
        if group is None:
            return
        names = self._names[group]
        del names[bisect_left(names, name)]
        if not names:
            del self._names[group]

    def names(self, group: GroupT) -> Sequence[str]:
        """Return the names of a group, sorted; not a copy."""
        return self._names.get(group, ())

    def count(self, group: GroupT) -> int:
        """Return how many names a group has."""
        return len(self._names.get(group, ()))

    def used(self) -> Sequence[GroupT]:
        """Return the groups that have names."""
        return tuple(self._names)
