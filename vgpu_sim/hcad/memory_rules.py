"""What of a policy's memory rules and limits the engine keeps; the rest is refused by name.

A remote key reaches one protection domain of one program, whatever rules say, so the scopes "Pod"
and "ProtectionDomain" are kept. Regions have no names here: a rule of scope "Named" lets no verb
pass that uses a key.
"""

from collections.abc import Iterator
from typing import Final

from rdma.tables import Limits, NodeTables, Verdict
from rdma.verbs import NONE, Verb
from vgpu_sim.hcad import qos

BY_KEY: Final = Verb.WRITE | Verb.WRITE_IMM | Verb.READ | Verb.ATOMIC_CAS | Verb.ATOMIC_FAA
_NAMED: Final = "Named"


def allowed(verdict: Verdict) -> Verb:
    """Return the verbs that pass, memory rules included."""
    by_key = NONE
    for verbs, memory in verdict.grants:
        if memory.scope != _NAMED:
            by_key |= verbs & (Verb.READ if memory.read_only else BY_KEY)
    return verdict.verbs & (by_key | ~BY_KEY)


def refused(tables: NodeTables) -> Iterator[str]:
    """Name what tables ask for and this version does not enforce, rule by rule."""
    for rule in tables.rules:
        where = f"{rule.policy} {rule.direction}[{rule.index}]"
        if rule.memory.scope == _NAMED:
            yield f"{where}.memory.scope Named: regions have no names here; verbs by key are denied"
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
