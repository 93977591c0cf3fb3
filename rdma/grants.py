"""What of a verdict's memory a remote key reaches: said once, for the engine and for ``explain``.

A remote key reaches one protection domain of one program, whatever rules say, so the scopes "Pod"
and "ProtectionDomain" are kept. Of the scope "Named" one name is known: ``device``, regions all of
whose memory is a GPU's. Other regions have no names: a rule that names nothing else lets no verb
pass that uses a key.
"""

from typing import Final

from rdma.operations import ATOMICS, BY_KEY, READS, WRITES
from rdma.tables import Verdict
from rdma.verbs import NONE, Verb

DEVICE: Final = "device"
KINDS: Final = (WRITES, READS, ATOMICS)
"""Of remote access: an engine asks for each of them, not for each verb."""
_NAMED: Final = "Named"


def passing(verdict: Verdict) -> Verb:
    """Return the verbs that pass, memory rules included, be it to a GPU's memory alone."""
    anywhere, device = _by_key(verdict)
    by_key = NONE
    for kind in KINDS:
        by_key |= kind & (anywhere if anywhere & kind else device)
    return verdict.verbs & (by_key | ~BY_KEY)


def to_device_alone(verdict: Verdict) -> Verb:
    """Return the kinds of access, each with all of its verbs, that reach a GPU's memory alone.

    Where one verb of a kind reaches all memory and another a GPU's alone, ``passing`` has the first
    only.
    """
    anywhere, device = _by_key(verdict)
    found = NONE
    for kind in KINDS:
        if device & kind and not anywhere & kind:
            found |= kind
    return found


def _by_key(verdict: Verdict) -> tuple[Verb, Verb]:
    """Return the verbs by key that reach all memory, and those that reach a GPU's."""
    anywhere = device = NONE
    for verbs, memory in verdict.grants:
        by_key = verbs & (Verb.READ if memory.read_only else BY_KEY)
        if memory.scope != _NAMED:
            anywhere |= by_key
        elif DEVICE in memory.regions:
            device |= by_key
    return anywhere, device
