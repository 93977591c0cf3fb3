"""Numbers that a pure function computed from a text, in this run of the tests or in an earlier one."""

from collections.abc import Callable

from support.kept.store import Store, key_of

_STORE = Store("counts")


def count_of(
    text: str, surroundings: bytes, compute: Callable[[str], int], store: Store = _STORE
) -> int:
    """Return ``compute(text)``. The ``surroundings`` are all else that the result depends on.

    Only results are stored: if ``compute`` raises an exception, it does so in each run.
    """
    key = key_of(surroundings, text.encode())
    found = store.get(key)
    if found is not None:
        return int(found)
    count = compute(text)
    store.put(key, str(count).encode())
    return count
