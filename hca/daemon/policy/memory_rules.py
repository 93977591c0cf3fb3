"""Memory rules and limits: which of them the engine enforces, and messages about the others.

``rdma.grants`` computes which verbs reach which memory. hcad itself records which regions are GPU
memory when it imports them; for this it never trusts a program.
"""

from collections.abc import Iterator
from typing import Final

from hca.contract.verbs import VerbsAccess
from hca.daemon.policy import qos
from rdma import grants
from rdma.grants import DEVICE
from rdma.tables import Limits, NodeTables, Verdict

_ACCESS: Final = (
    VerbsAccess.REMOTE_WRITE,
    VerbsAccess.REMOTE_READ,
    VerbsAccess.REMOTE_ATOMIC,
)
"""The access flags that correspond to ``grants.KINDS``, in the same order."""


def device_only_access(verdict: Verdict) -> int:
    """Return the access flags for which the verdict restricts a peer to GPU memory."""
    alone = grants.device_only_verbs(verdict)
    flags = 0
    for access, kind in zip(_ACCESS, grants.KINDS, strict=True):
        if alone & kind:
            flags |= access
    return flags


def find_unenforced(tables: NodeTables) -> Iterator[str]:
    """Yield a message for each part of the tables' rules that this version does not enforce."""
    for rule in tables.rules:
        where = f"{rule.policy} {rule.direction}[{rule.index}]"
        if unknown := [name for name in rule.memory.regions if name != DEVICE]:
            names = ", ".join(unknown[:5])
            yield (
                f"{where}.memory.regions {names}: regions have no names here but {DEVICE!r};"
                " nothing is reached by these"
            )
    yield from qos.find_unenforced(tables.qos_classes)


def limits_of(tables: NodeTables, address: str) -> Limits:
    """Return the limits that apply to the pod at an address.

    Each limit is the smallest one among the enforced rules that select the pod.
    """
    number = next(
        (endpoint.identity for endpoint in tables.endpoints if endpoint.address == address), None
    )
    identity = next(
        (candidate for candidate in tables.identities if candidate.number == number), None
    )
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
