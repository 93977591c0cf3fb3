"""The dependencies between the C files of a library, read in this run of the tests or, from equal
files by the same functions, in an earlier one.
"""

import functools
import hashlib
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.kept.store import Store, key_of
from support.proofs import object_calls
from vgpu_sim.native import build, catalogue, freshness

_STORE = Store("dependencies")

Files = dict[str, set[str]]


class Dependencies(NamedTuple):
    """For each file of a library, the files that it calls, and those that it calls or whose
    variables it names.
    """

    calls: Files
    uses: Files


def dependencies_of(part: catalogue.Part, store: Store = _STORE) -> Dependencies:
    """Compile the files of a library, which must be up to date, and read their dependencies."""
    command = build.identity(part)
    inputs = freshness.recorded_digest(part, build.LIBRARIES)
    assert freshness.is_current(part, build.LIBRARIES, command), f"build {part.library} first"
    key = key_of(_functions(), part.library.encode(), inputs.encode())
    found = store.get(key)
    if found is not None:
        calls, uses = json.loads(found)
        return Dependencies(_as_sets(calls), _as_sets(uses))
    with tempfile.TemporaryDirectory(prefix="objects-") as folder:
        objects = object_calls.compile_objects(part, Path(folder))
        made = Dependencies(object_calls.calls_between(objects), object_calls.uses_between(objects))
    listed = [{name: sorted(others) for name, others in files.items()} for files in made]
    store.put(key, json.dumps(listed).encode())
    return made


def _as_sets(files: dict[str, list[str]]) -> Files:
    return {name: set(others) for name, others in files.items()}


@functools.cache
def _functions() -> bytes:
    """Return a digest of the functions that compile and read."""
    return hashlib.sha256(Path(object_calls.__file__).read_bytes()).digest()
