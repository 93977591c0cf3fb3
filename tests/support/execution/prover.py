"""Proofs of LLVM's texts: made in this run of the tests or, by the same prover, in an earlier one."""

import functools
from pathlib import Path

from support.kept.store import Store, digest_of, key_of
from support.proofs import clamp_proof

_STORE = Store("proofs")


def prove(text: str, store: Store = _STORE) -> int:
    """Return ``clamp_proof.prove`` of a text, or raise as it does."""
    key = key_of(_prover(), text.encode())
    found = store.get(key)
    if found is not None:
        return int(found)
    count = clamp_proof.prove(text)
    store.put(key, str(count).encode())
    return count


@functools.cache
def _prover() -> bytes:
    """Return a digest of the sources of all proofs."""
    folder = Path(clamp_proof.__file__).parent
    return digest_of(folder, sorted(folder.glob("*.py")))
