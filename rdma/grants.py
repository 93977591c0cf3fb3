"""Compute the memory that a verdict opens to remote keys, for the engine and for ``explain``.

A remote key reaches one protection domain of one program, whatever the rules contain, so the
scopes "Pod" and "ProtectionDomain" are always enforced. In the scope "Named" only the name
``device`` is known, which stands for regions in GPU memory. Other regions have no names, so a rule
with other names grants no verb that uses a key.
"""

from typing import Final

from rdma.operations import ATOMICS, BY_KEY, READS, WRITES
from rdma.tables import Verdict
from rdma.verbs import NONE, Verb

DEVICE: Final = "device"
KINDS: Final = (WRITES, READS, ATOMICS)
"""The kinds of remote access (write, read, atomic); the engine checks an access's kind, not its
verb.
"""
_NAMED: Final = "Named"


def passing_verbs(verdict: Verdict) -> Verb:
    """Return the verbs that pass both the verdict's verb rules and its memory rules.

    Some of them may reach GPU memory only (see ``device_only_verbs``).
    """
    anywhere, device = _by_key(verdict)
    by_key = NONE
    for kind in KINDS:
        by_key |= kind & (anywhere if anywhere & kind else device)
    return verdict.verbs & (by_key | ~BY_KEY)


def device_only_verbs(verdict: Verdict) -> Verb:
    """Return the verbs that the engine must restrict to GPU memory.

    The engine checks an access's kind (write, read, atomic), not its verb. So the result has either
    all verbs of a kind or none. It has all of them if the grants of the kind reach only GPU
    memory. If any verb of the kind reaches all memory, the result has none of them.
    ``passing_verbs`` then omits the verbs of the kind that reach only GPU memory.
    """
    anywhere, device = _by_key(verdict)
    verbs = NONE
    for kind in KINDS:
        if device & kind and not anywhere & kind:
            verbs |= kind
    return verbs


def _by_key(verdict: Verdict) -> tuple[Verb, Verb]:
    """Return the verbs with a remote key that reach all memory, and those that reach GPU memory."""
    anywhere = device = NONE
    for verbs, memory in verdict.grants:
        by_key = verbs & (Verb.READ if memory.read_only else BY_KEY)
        if memory.scope != _NAMED:
            anywhere |= by_key
        elif DEVICE in memory.regions:
            device |= by_key
    return anywhere, device
