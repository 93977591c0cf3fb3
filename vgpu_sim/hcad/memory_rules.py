"""What of a policy's memory rules and limits the engine keeps; the rest is refused by name.

A remote key reaches one protection domain of one program, whatever rules say, so the scopes "Pod"
and "ProtectionDomain" are kept. Of the scope "Named" one name is known: ``device``, regions all of
whose memory is a GPU's, which hcad knows from whoever lent it and never from a program. Other
regions have no names here: a rule that names nothing else lets no verb pass that uses a key.
"""

from collections.abc import Iterator
from typing import Final

from rdma.tables import Limits, NodeTables, Verdict
from rdma.verbs import NONE, Verb
from vgpu_sim.hal.verbs import VerbsAccess
from vgpu_sim.hcad import qos

DEVICE: Final = "device"
BY_KEY: Final = Verb.WRITE | Verb.WRITE_IMM | Verb.READ | Verb.ATOMIC_CAS | Verb.ATOMIC_FAA
_NAMED: Final = "Named"
_KINDS: Final = (
    (VerbsAccess.REMOTE_WRITE, Verb.WRITE | Verb.WRITE_IMM),
    (VerbsAccess.REMOTE_READ, Verb.READ),
    (VerbsAccess.REMOTE_ATOMIC, Verb.ATOMIC_CAS | Verb.ATOMIC_FAA),
)


def allowed(verdict: Verdict) -> Verb:
    """Return the verbs that pass, memory rules included, be it to a GPU's memory alone."""
    anywhere, device = _by_key(verdict)
    by_key = NONE
    for _, kind in _KINDS:
        by_key |= kind & (anywhere if anywhere & kind else device)
    return verdict.verbs & (by_key | ~BY_KEY)


def device_only(verdict: Verdict) -> int:
    """Return the flags of remote access that are to a GPU's memory alone.

    The engine asks for each kind of access, not for each verb. Where one verb of a kind reaches all
    memory and another a GPU's alone, ``allowed`` has the first only.
    """
    anywhere, device = _by_key(verdict)
    flags = 0
    for access, kind in _KINDS:
        if device & kind and not anywhere & kind:
            flags |= access
    return flags


def _by_key(verdict: Verdict) -> tuple[Verb, Verb]:
    """Return the verbs by key that reach all memory, and those that reach a GPU's."""
    anywhere = device = NONE
    for verbs, memory in verdict.grants:
        passing = verbs & (Verb.READ if memory.read_only else BY_KEY)
        if memory.scope != _NAMED:
            anywhere |= passing
        elif DEVICE in memory.regions:
            device |= passing
    return anywhere, device


def refused(tables: NodeTables) -> Iterator[str]:
    """Name what tables ask for and this version does not enforce, rule by rule."""
    for rule in tables.rules:
        where = f"{rule.policy} {rule.direction}[{rule.index}]"
        if unknown := [name for name in rule.memory.regions if name != DEVICE]:
            names = ", ".join(unknown[:5])
            yield (
                f"{where}.memory.regions {names}: regions have no names here but {DEVICE!r};"
                " nothing is reached by these"
            )
    yield from qos.refused(tables.qos_classes)


def limits_of(tables: NodeTables, address: str) -> Limits:
    """Return the least limits of objects among the rules that select an address's pod."""
    number = next((one.identity for one in tables.endpoints if one.address == address), None)
    identity = next((one for one in tables.identities if one.number == number), None)
    if identity is None:
        return Limits()
    rules = [
        tables.rules[place].limits
        for isolation in (identity.ingress, identity.egress)
        if isolation is not None and isolation.enforced
        for place in isolation.rules
    ]
    return Limits(
        queue_pairs=min((r.queue_pairs for r in rules if r.queue_pairs is not None), default=None),
        region_bytes=min(
            (r.region_bytes for r in rules if r.region_bytes is not None), default=None
        ),
    )
