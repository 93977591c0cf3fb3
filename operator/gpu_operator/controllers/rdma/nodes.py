"""One node's tables: which generation they are, what its agent has acknowledged, if it is heard of.

A *revision* counts compilations; a *generation* counts what one node was sent. Generations only
grow: from that of the object, or where there is none from the clock, so that they go on growing
when somebody deletes the object. What an acknowledgement is worth is decided here and nowhere else.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from gpu_operator.api.v1alpha1.rdma.packing import Packed, Packer
from gpu_operator.api.v1alpha1.rdma.tables import HcadState, SecondLayer
from gpu_operator.controllers.rdma.reading import SeenTables
from rdma.errors import TablesError
from rdma.tables import NodeTables

SILENT_AFTER_S: Final = 10.0
_AHEAD_MS: Final = 1000 * 86400 * 366  # no clock is further ahead than that: somebody lies


@dataclass(frozen=True, slots=True)
class Sent:
    """Tables as they were made for the node; they say all that was compiled from ``since`` on."""

    since: int
    generation: int
    digest: str


class NodeState:
    """Pure bookkeeping; times are the caller's (monotonic seconds, and Unix milliseconds).

    ``packer`` is one for all nodes: they have most of their tables in common.
    """

    def __init__(self, name: str, now_s: float, packer: Packer) -> None:
        self.name = name
        self._packer = packer
        self.seen: SeenTables | None = None
        self._tables: NodeTables | None = None
        self._sent: list[Sent] = []
        self._heard_s = now_s

    def heard(self, now_s: float) -> None:
        """Note a sign of life."""
        self._heard_s = now_s

    def silent_in_s(self, now_s: float) -> float:
        """Return when it will have been silent for too long; not above 0: it has."""
        return self._heard_s + SILENT_AFTER_S - now_s

    def take(self, seen: SeenTables | None, now_s: float) -> None:
        """Note the object as it is now; a status that is new is a sign of life."""
        before = self.seen.status if self.seen is not None else None
        if seen is not None and seen.status != before and seen.status.time:
            self.heard(now_s)
        self.seen = seen

    def due(self, tables: NodeTables, revision: int, now_ms: int) -> tuple[int, Packed] | None:
        """Return generation and tables of what has to be written; None: it is there.

        ``tables`` are of generation 0. Raises TablesError where they are too large.
        """
        try:
            return self._due(tables, revision, now_ms)
        except TablesError:
            self._tables = None  # what was sent before does not say what these do
            raise

    def _due(self, tables: NodeTables, revision: int, now_ms: int) -> tuple[int, Packed] | None:
        seen = self.seen
        known, self._tables = self._tables, tables
        if known is None or not _same(known, tables):
            if not self._sent and seen is not None:
                packed = self._packed(tables, seen.generation)
                if packed.digest == seen.digest:  # the operator has just started
                    self._sent = [Sent(revision, seen.generation, seen.digest)]
                    return None
            return self._send(revision, now_ms)
        last = self._sent[-1]
        if seen is not None and self._refused_as_old(seen, now_ms):
            return self._send(revision, now_ms)
        if seen is not None and (seen.generation, seen.digest) == (last.generation, last.digest):
            return None
        if seen is not None and seen.generation >= last.generation:
            return self._send(revision, now_ms)  # written by another hand
        return last.generation, self._packed(tables, last.generation)

    @property
    def enforced_below(self) -> float:
        """Return the first revision of which the node has not acknowledged what was compiled."""
        acknowledged = self.acknowledged
        if not self._sent or not 0 < self._sent[0].generation <= acknowledged:
            return -math.inf
        late = (sent.since for sent in self._sent if sent.generation > acknowledged)
        return min(late, default=math.inf)

    @property
    def second_layer(self) -> SecondLayer:
        """Return what the node's agent says of the rules on its pods' links."""
        return self.seen.status.second_layer if self.seen is not None else SecondLayer.UNKNOWN

    @property
    def acknowledged(self) -> int:
        """Return the generation that hcad enforces; 0 where that is not beyond doubt.

        What is there must be what this operator has sent, and not less than what is acknowledged.
        """
        seen = self.seen
        if seen is None or seen.status.hcad is not HcadState.ENFORCING:
            return 0
        ours = any((s.generation, s.digest) == (seen.generation, seen.digest) for s in self._sent)
        return seen.status.generation if ours and seen.status.generation <= seen.generation else 0

    def forget(self) -> None:
        """Drop what is sent and older than what is acknowledged: nobody asks for less."""
        acknowledged = self.acknowledged
        while len(self._sent) > 1 and self._sent[1].generation <= acknowledged:
            del self._sent[0]

    def _send(self, revision: int, now_ms: int) -> tuple[int, Packed]:
        assert self._tables is not None
        generation = self._next_generation(now_ms)
        packed = self._packed(self._tables, generation)
        self._sent.append(Sent(revision, generation, packed.digest))
        return generation, packed

    def _packed(self, tables: NodeTables, generation: int) -> Packed:
        return self._packer.pack(replace(tables, generation=generation))

    def _next_generation(self, now_ms: int) -> int:
        known = [sent.generation for sent in self._sent[-1:]]
        if self.seen is not None:
            known.append(self.seen.generation)
            known += [self.seen.status.generation] if self._is_ahead(self.seen, now_ms) else []
        return max(known) + 1 if known else now_ms

    def _refused_as_old(self, seen: SeenTables, now_ms: int) -> bool:
        return seen.status.hcad is HcadState.REFUSED and self._is_ahead(seen, now_ms)

    def _is_ahead(self, seen: SeenTables, now_ms: int) -> bool:
        return seen.generation < seen.status.generation <= now_ms + _AHEAD_MS


def _same(one: NodeTables, other: NodeTables) -> bool:
    """Compare; what nodes share is the same object as long as nothing has changed."""
    return one is other or one == other
