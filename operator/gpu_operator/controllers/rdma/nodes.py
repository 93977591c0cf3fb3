"""State of one node's tables: their generation, the agent's acknowledgement, and its heartbeat.

A *revision* counts compilations; a *generation* counts the tables that were sent to one node.
Generations only increase: they start at the object's generation or, without an object, at the
current time, so that they increase even if a user deletes the object. Only this module decides
whether an acknowledgement is valid.
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
_AHEAD_MS: Final = 1000 * 86400 * 366  # no valid clock is further ahead; a larger value is forged


@dataclass(frozen=True, slots=True)
class Sent:
    """Tables that were sent to the node.

    The same tables can result from several revisions of the policies. ``since`` is the first of
    these revisions.
    """

    since: int
    generation: int
    digest: str


class NodeState:
    """The state of one node's tables.

    The caller supplies times: monotonic seconds, and Unix milliseconds. All nodes share one
    ``packer``, because most of their tables are the same.
    """

    def __init__(self, name: str, now_s: float, packer: Packer) -> None:
        self.name = name
        self._packer = packer
        self.seen: SeenTables | None = None
        self._tables: NodeTables | None = None
        self._sent: list[Sent] = []
        self._heartbeat_s = now_s

    def record_heartbeat(self, now_s: float) -> None:
        """Record that the node's agent is alive."""
        self._heartbeat_s = now_s

    def seconds_until_silent(self, now_s: float) -> float:
        """Return the seconds until the node counts as silent; 0 or less if it does already."""
        return self._heartbeat_s + SILENT_AFTER_S - now_s

    def apply(self, seen_tables: SeenTables | None, now_s: float) -> None:
        """Record the present state of the node's RDMANodeTables object; None if there is no object.

        If the object's status changed, the agent counts as alive.
        """
        old_status = self.seen.status if self.seen is not None else None
        if seen_tables is not None and seen_tables.status != old_status and seen_tables.status.time:
            self.record_heartbeat(now_s)
        self.seen = seen_tables

    def due_write(
        self, tables: NodeTables, revision: int, now_ms: int
    ) -> tuple[int, Packed] | None:
        """Return the generation and packed tables to write; None if the object is up to date.

        The caller passes ``tables`` with generation 0.

        Raises:
            TablesError: the tables are too large.
        """
        try:
            return self._due_write(tables, revision, now_ms)
        except TablesError:
            self._tables = None  # the tables that were sent before differ from these
            raise

    def _due_write(
        self, tables: NodeTables, revision: int, now_ms: int
    ) -> tuple[int, Packed] | None:
        seen_tables = self.seen
        old_tables, self._tables = self._tables, tables
        if old_tables is None or not _same(old_tables, tables):
            if not self._sent and seen_tables is not None:
                packed = self._pack(tables, seen_tables.generation)
                if packed.digest == seen_tables.digest:  # the operator has just started
                    self._sent = [Sent(revision, seen_tables.generation, seen_tables.digest)]
                    return None
            return self._send(revision, now_ms)
        last = self._sent[-1]
        if seen_tables is not None and self._refused_as_old(seen_tables, now_ms):
            return self._send(revision, now_ms)
        if seen_tables is not None and (seen_tables.generation, seen_tables.digest) == (
            last.generation,
            last.digest,
        ):
            return None
        if seen_tables is not None and seen_tables.generation >= last.generation:
            return self._send(revision, now_ms)  # another writer has changed the object
        return last.generation, self._pack(tables, last.generation)

    @property
    def enforced_below(self) -> float:
        """Return the first revision of the policies that the node has not acknowledged.

        The node enforces all earlier revisions. The result is infinity if the node enforces
        every revision, and minus infinity if it enforces none.
        """
        acknowledged = self.acknowledged
        if not self._sent or not 0 < self._sent[0].generation <= acknowledged:
            return -math.inf
        late = (sent.since for sent in self._sent if sent.generation > acknowledged)
        return min(late, default=math.inf)

    @property
    def second_layer(self) -> SecondLayer:
        """Return the state of the rules on the pods' links, as the node's agent reports it."""
        return self.seen.status.second_layer if self.seen is not None else SecondLayer.UNKNOWN

    @property
    def acknowledged(self) -> int:
        """Return the generation of the tables that hcad certainly enforces, or 0.

        The node's object has a spec with tables, and a status with the generation that hcad
        acknowledged. This generation is returned only if this operator sent the tables in the
        spec, and if their generation is at least as high.
        """
        seen_tables = self.seen
        if seen_tables is None or seen_tables.status.hcad is not HcadState.ENFORCING:
            return 0
        ours = any(
            (s.generation, s.digest) == (seen_tables.generation, seen_tables.digest)
            for s in self._sent
        )
        return (
            seen_tables.status.generation
            if ours and seen_tables.status.generation <= seen_tables.generation
            else 0
        )

    def prune_sent(self) -> None:
        """Drop sent tables that are older than the acknowledged ones."""
        acknowledged = self.acknowledged
        while len(self._sent) > 1 and self._sent[1].generation <= acknowledged:
            del self._sent[0]

    def _send(self, revision: int, now_ms: int) -> tuple[int, Packed]:
        assert self._tables is not None
        generation = self._next_generation(now_ms)
        packed = self._pack(self._tables, generation)
        self._sent.append(Sent(revision, generation, packed.digest))
        return generation, packed

    def _pack(self, tables: NodeTables, generation: int) -> Packed:
        return self._packer.pack(replace(tables, generation=generation))

    def _next_generation(self, now_ms: int) -> int:
        generations = [sent.generation for sent in self._sent[-1:]]
        if self.seen is not None:
            generations.append(self.seen.generation)
            generations += (
                [self.seen.status.generation] if self._is_ahead(self.seen, now_ms) else []
            )
        return max(generations) + 1 if generations else now_ms

    def _refused_as_old(self, seen_tables: SeenTables, now_ms: int) -> bool:
        return seen_tables.status.hcad is HcadState.REFUSED and self._is_ahead(seen_tables, now_ms)

    def _is_ahead(self, seen_tables: SeenTables, now_ms: int) -> bool:
        return seen_tables.generation < seen_tables.status.generation <= now_ms + _AHEAD_MS


def _same(first: NodeTables, second: NodeTables) -> bool:
    """Return whether the tables are equal.

    The common part of two tables is the same object as long as nothing in it has changed.
    """
    return first is second or first == second
