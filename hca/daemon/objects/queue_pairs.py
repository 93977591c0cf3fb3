"""Queue pairs of a client."""

import errno
import os
from ctypes import sizeof
from dataclasses import asdict, field
from functools import partial
from typing import Final

from hca.binding import qp_state
from hca.binding.engine import Engine, EngineQp
from hca.contract import hca, hca_engine
from hca.contract.hca import HcaCreated, HcaQpAttributes
from hca.contract.hca_engine import HcaPolicyChange
from hca.contract.verbs import VerbsMask, VerbsQpType, VerbsState
from hca.daemon.cm.bindings import NOT_CONNECTED, Bindings, Found
from hca.daemon.cm.policy import Service
from hca.daemon.common.handover_state import HandoverState, Row, from_base64, to_base64
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.checks import (
    check_range,
    check_room,
    get,
    new_page_descriptor,
    os_error,
    round_up_to_pages,
    round_up_to_power_of_two,
)
from hca.daemon.objects.completions import Completions
from hca.daemon.objects.shared_receives import SharedReceives
from vgpu_sim.records import dataclass

_CONNECTED = (VerbsQpType.RC, VerbsQpType.UC)
_OBJECT_BYTES: Final = 32 << 10  # a queue pair over a wire, with its unacknowledged packets


@dataclass(slots=True)
class _QueuePair:
    engine: EngineQp
    index: int
    pd: int
    cqs: tuple[int, int]
    type: VerbsQpType
    srq: int
    wanted: bytes
    created: bytes
    attributes: HcaQpAttributes = field(default_factory=HcaQpAttributes)
    found: Found = NOT_CONNECTED
    """The service of the connection between the queue pair and its peer, if there is one."""


class QueuePairs(SharedReceives, Completions):
    """A client's queue pairs."""

    def __init__(
        self, engine: Engine, numbers: Numbers, gids: tuple[bytes, ...], memory_bytes: int
    ) -> None:
        """Add the client to the engine. It has no queue pairs yet. Raises OSError."""
        super().__init__(engine, numbers, gids, memory_bytes)
        self.bindings = Bindings()
        """The connections of the connection manager, which all clients of an hcad share."""
        self._gids = gids
        self._qps: dict[int, _QueuePair] = {}
        self._free_indices = list(range(hca.HCA_MAX_QPS - 1, -1, -1))

    def create_qp(self, request: hca.HcaQpCreate) -> tuple[HcaCreated, int]:
        """Make a queue pair. Raises OSError.

        Return the queue pair's description, and the descriptor of the memory for its work
        requests.
        """
        check_room(self._qps, hca.HCA_MAX_QPS)
        if request.type not in tuple(VerbsQpType):
            raise os_error(errno.EOPNOTSUPP)
        get(self._pds, request.pd)
        get(self._cqs, request.send_cq)
        get(self._cqs, request.recv_cq)
        if request.srq:
            get(self._srqs, request.srq)
        check_range(request.send_wr, 0, hca.HCA_MAX_WR)
        check_range(request.recv_wr, 0, hca.HCA_MAX_WR)
        sends, receives = (
            round_up_to_power_of_two(request.send_wr),
            round_up_to_power_of_two(request.recv_wr),
        )
        size = round_up_to_pages(
            sizeof(hca.HcaQpPage)
            + sends * sizeof(hca.HcaSendSlot)
            + receives * sizeof(hca.HcaRecvSlot)
        )
        self._guard.charge_qp()
        number, index = self._numbers.new_qpn(), self._free_indices[-1]
        created = HcaCreated(number, index, size, sends, receives)
        try:
            with new_page_descriptor("hca-qp", size) as page:
                self._add_qp(request, created, page)
        except OSError:
            self._numbers.free_qpn(number)
            self._guard.release_qp()
            raise
        self._free_indices.pop()
        return created, page

    def _add_qp(self, request: hca.HcaQpCreate, created: HcaCreated, page: int) -> _QueuePair:
        send_cq, recv_cq = self._cqs[request.send_cq], self._cqs[request.recv_cq]
        srq = self._srqs[request.srq] if request.srq else None
        number = created.handle
        with self._holding("qp", number, page, created.page_bytes, object_bytes=_OBJECT_BYTES):
            engine_qp = self._engine.add_qp(
                self._client,
                request,
                created,
                page,
                send_cq.engine,
                recv_cq.engine,
                srq.engine if srq is not None else None,
            )
        cqs = (request.send_cq, request.recv_cq)
        self.bindings.add_queue_pair(number, self._gids, partial(self._reevaluate, number))
        self._qps[number] = _QueuePair(
            engine_qp,
            created.index,
            request.pd,
            cqs,
            VerbsQpType(request.type),
            request.srq,
            bytes(request),
            bytes(created),
        )
        if srq is not None:
            srq.queue_pairs += 1
        self._pds[request.pd] += 1
        send_cq.queue_pairs += 1
        recv_cq.queue_pairs += 1
        return self._qps[number]

    def modify_qp(self, request: hca.HcaQpModify) -> HcaQpAttributes:
        """Change some of a queue pair's attributes; return all of its attributes. Raises OSError.

        The queue pair's state and type determine which changes are permitted.
        """
        qp = self._refresh(request.handle)
        if request.mask & VerbsMask.PATH_MTU and request.attributes.path_mtu > self._mtu:
            raise OSError(
                errno.EINVAL, f"path MTU {request.attributes.path_mtu}, at most {self._mtu}"
            )
        try:
            changed = qp_state.change_attributes(
                qp.attributes, request.mask, request.attributes, qp.type
            )
        except qp_state.InvalidChange as err:
            raise OSError(errno.EINVAL, str(err)) from err
        if request.mask & VerbsMask.PKEY_INDEX and not any(
            self.pkeys[changed.pkey_index : changed.pkey_index + 1]
        ):
            raise OSError(errno.EINVAL, f"no P_Key at index {changed.pkey_index}")
        if qp.type in _CONNECTED and _names_peer(changed.state, request.mask):
            self._connect(qp, request.handle, changed)
            return changed
        if qp.type == VerbsQpType.RAW_PACKET and changed.state == VerbsState.RTR:
            self._guard.authorize_raw(qp.engine)
        service_match = qp.found
        if changed.state == VerbsState.RESET:
            self._guard.forget(qp.engine)
            service_match = NOT_CONNECTED
        self._set(qp, changed)
        qp.attributes, qp.found = changed, service_match
        return changed

    def _connect(self, qp: _QueuePair, number: int, changed: HcaQpAttributes) -> None:
        """Connect a queue pair to another peer if policy permits it.

        If policy does not permit it, this raises OSError, and the queue pair keeps its present
        peer.
        """
        if self._engine.is_draining(qp.engine):
            raise OSError(errno.EINVAL, "the send queue is not drained: wait for its completions")
        service_match = self._find(number, changed, inherited=False)
        try:
            self._guard.authorize_peer(
                qp.engine, number, changed, service_match, partial(self._set, qp, changed)
            )
        except OSError:
            self._find(number, qp.attributes)  # it still awaits the same answer
            raise
        qp.attributes, qp.found = changed, service_match
        self.bindings.end_inherited(number)

    def _set(
        self, qp: _QueuePair, changed: HcaQpAttributes, policy: HcaPolicyChange | None = None
    ) -> None:
        """Set a queue pair's attributes in the engine.

        Raises OSError if the engine has put the queue pair into ERR meanwhile.
        """
        if not self._engine.set_qp(qp.engine, qp.attributes.state, changed, policy):
            self._guard.forget(qp.engine)
            raise OSError(errno.EINVAL, "the queue pair has failed meanwhile")

    def query_qp(self, number: int) -> HcaQpAttributes:
        """Return a queue pair's current attributes. Raises OSError."""
        qp = self._refresh(number)
        qp.attributes.sq_draining = self._engine.is_draining(qp.engine)
        return qp.attributes

    def destroy_qp(self, number: int) -> None:
        """Remove a queue pair. Raises OSError."""
        qp = get(self._qps, number)
        del self._qps[number]
        self.bindings.remove_queue_pair(number)
        self._guard.forget(qp.engine)
        self._engine.remove_qp(qp.engine)
        self.release("qp", number)
        self._numbers.free_qpn(number)
        self._guard.release_qp()
        self._free_indices.append(qp.index)
        self._pds[qp.pd] -= 1
        if qp.srq:
            self._srqs[qp.srq].queue_pairs -= 1
        for handle in qp.cqs:
            self._cqs[handle].queue_pairs -= 1

    def _find(self, number: int, attributes: HcaQpAttributes, *, inherited: bool = True) -> Found:
        """Return the service that connects a queue pair to the peer named by ``attributes``."""
        return self.bindings.find(
            number,
            self._gids[attributes.sgid_index],
            bytes(attributes.dgid),
            attributes.dest_qpn,
            inherited=inherited,
        )

    def _reevaluate(self, number: int) -> None:
        """Evaluate policy again for a queue pair whose connection has changed."""
        qp = self._qps.get(number)
        if qp is None or qp.type not in _CONNECTED or not _has_peer(qp.attributes.state):
            return
        qp.found = self._find(number, qp.attributes)
        try:
            self._guard.reauthorize_peer(qp.engine, qp.found)
        except OSError:  # no memory for its counters: it loses its rights
            self._guard.forget(qp.engine)

    def _refresh(self, number: int) -> _QueuePair:
        qp = get(self._qps, number)
        state = self._engine.state_of(qp.engine)
        if state in (VerbsState.ERR, VerbsState.SQE):  # set by the engine
            qp.attributes.state = state
        return qp

    def save_qp(self, number: int, handover_state: HandoverState) -> Row:
        """Return the queue pair's record for a successor; the engine must be suspended
        (``Engine.suspend``).
        """
        qp = self._qps[number]
        return {
            "request": to_base64(qp.wanted),
            "created": to_base64(qp.created),
            "page": handover_state.add_descriptor(self.held["qp", number].descriptor),
            "progress": to_base64(bytes(self._engine.save_qp(qp.engine))),
            **self._saved_service(qp),
        }

    def _saved_service(self, qp: _QueuePair) -> Row:
        if qp.found.service is None:
            return {"service": None}
        local, peer = self._gids[qp.attributes.sgid_index], bytes(qp.attributes.dgid)
        joins = [local.hex(), peer.hex(), qp.attributes.dest_qpn]
        return {"service": asdict(qp.found.service), "joins": joins}

    def _load_service(self, number: int, row: Row, attributes: HcaQpAttributes) -> Found:
        """Restore the service of a queue pair if the queue pair's peer is still the one in the
        record.
        """
        local, peer = self._gids[attributes.sgid_index], bytes(attributes.dgid)
        joins = [local.hex(), peer.hex(), attributes.dest_qpn]
        if row["service"] is not None and row.get("joins") == joins:
            service = Service(**row["service"])
            self.bindings.inherit(number, local, peer, attributes.dest_qpn, service)
        return self._find(number, attributes)

    def load_qp(self, row: Row, handover_state: HandoverState) -> None:
        """Restore a predecessor's queue pair; the engine must be suspended (``Engine.suspend``).

        Raises OSError, ValueError.
        """
        request = hca.HcaQpCreate.from_buffer_copy(from_base64(row["request"]))
        created = HcaCreated.from_buffer_copy(from_base64(row["created"]))
        progress = hca_engine.HcaSavedQp.from_buffer_copy(from_base64(row["progress"]))
        self._numbers.adopt_qpn(created.handle)
        self._free_indices.remove(created.index)
        page = handover_state.take_descriptor(row["page"])
        try:
            qp = self._add_qp(request, created, page)
        finally:
            os.close(page)
        self._engine.load_qp(qp.engine, progress)
        qp.attributes = HcaQpAttributes.from_buffer_copy(bytes(progress.attributes))
        self._guard.charge_adopted(queue_pairs=1)
        if not _has_peer(qp.attributes.state):
            return
        if qp.type in _CONNECTED:
            qp.found = self._load_service(created.handle, row, qp.attributes)
            self._guard.adopt_peer(qp.engine, created.handle, qp.attributes, qp.found.service)
        elif qp.type == VerbsQpType.RAW_PACKET:
            self._guard.adopt_raw(qp.engine)


def _names_peer(state: int, mask: int) -> bool:
    """Return whether a change to ``state`` of the attributes in ``mask`` sets a queue pair's
    peer.
    """
    path = VerbsMask.AV | VerbsMask.DEST_QPN | VerbsMask.PKEY_INDEX
    return _has_peer(state) and bool(mask & path)


def _has_peer(state: int) -> bool:
    return state not in (VerbsState.RESET, VerbsState.INIT, VerbsState.ERR)
