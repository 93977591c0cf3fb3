"""Names in sorted groups; finds the first names of a group, and their number."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

GroupT = TypeVar("GroupT", bound=Hashable)


class Tally(Generic[GroupT]):
    """Assigns names to groups. One assignment costs a binary search."""

    def __init__(self) -> None:
        self._group: dict[str, GroupT] = {}
        self._names: dict[GroupT, list[str]] = {}

    def __len__(self) -> int:
        return len(self._group)

    @property
    def groups(self) -> Mapping[str, GroupT]:
        """Return a mapping from each name to its group."""
        return self._group

    def put(self, name: str, group: GroupT) -> None:
        """Put a name into a group; remove it from its previous group."""
        old_group = self._group.get(name)
        if old_group is not None:
            if old_group == group:
                return
            self.drop(name)
        self._group[name] = group
        insort(self._names.setdefault(group, []), name)

    def drop(self, name: str) -> None:
        """Remove a name from its group, if it is in one."""
        group = self._group.pop(name, None)
        if group is None:
            return
        names = self._names[group]
        del names[bisect_left(names, name)]
        if not names:
            del self._names[group]

    def names(self, group: GroupT) -> Sequence[str]:
        """Return the sorted names of a group. The caller must not change the returned list."""
        return self._names.get(group, ())

    def count(self, group: GroupT) -> int:
        """Return the number of names in a group."""
        return len(self._names.get(group, ()))

    def nonempty_groups(self) -> Sequence[GroupT]:
        """Return the groups that contain names."""
        return tuple(self._names)
