"""The operations of hcad's administration socket for policy.

A reply to the operation ``tables`` means that the engine enforces the new tables, and has
revoked what they deny.
"""

import asyncio
from typing import Any, Final

from hca.daemon.policy import memory_rules
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.successors import StaleTables
from hca.daemon.wires.pod_wires import PodWires
from rdma import codec
from rdma.errors import RdmaError
from vgpu_sim.system.admin_socket.errors import Conflict, InvalidRequest
from vgpu_sim.system.admin_socket.parameters import fields
from vgpu_sim.system.admin_socket.server import Operation

MAX_LINE_BYTES: Final = 2 * codec.MAX_BYTES
"""Largest request in bytes. The tables are a string in a line of JSON, in which each of their
quotation marks takes two bytes.
"""


def operations(enforcer: Enforcer, wires: PodWires | None = None) -> dict[str, Operation]:
    """Return the operations for policy by name; ``wires`` are the wires of a node's pods."""

    async def tables(params: dict[str, Any]) -> dict[str, Any]:
        text = fields(params, {"document": str})["document"]
        try:
            decoded = await asyncio.to_thread(codec.decode, text)
        except RdmaError as err:
            raise InvalidRequest(str(err)) from err
        try:
            switched = await enforcer.apply_tables(decoded)
        except StaleTables as err:
            raise Conflict(str(err)) from err
        return {
            "generation": switched.generation,
            "revoked": switched.revoked,
            "narrowed": switched.narrowed,
            "refused": list(memory_rules.find_unenforced(decoded)),
        }

    async def generation(params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        reply = {"generation": enforcer.tables.generation if enforcer.tables is not None else None}
        if wires is not None:
            reply["path_mtu"] = wires.path_mtu
        return reply

    async def status(params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        await enforcer.collect_counts()
        reply = policy_status(enforcer)
        return reply if wires is None else {**reply, "wire": wires.status()}

    async def denials(params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        await enforcer.collect_counts()
        counts, lost = enforcer.denials.take()
        listed = [{**denial.to_json(), "count": count} for denial, count in counts.items()]
        return {"denials": listed, "lost": lost}

    return {
        "tables": tables,
        "policy-generation": generation,
        "policy-status": status,
        "denials": denials,
    }


def policy_status(enforcer: Enforcer) -> dict[str, Any]:
    """Return which tables are in force, the parties, and the counts of connections and denials.

    The result also has the counts of each rule.
    """
    enforcer.flows.collect_counts()
    tables = enforcer.tables
    return {
        "managed": enforcer.managed,
        "generation": tables.generation if tables is not None else None,
        "node": tables.node if tables is not None else "",
        "refused": list(memory_rules.find_unenforced(tables)) if tables is not None else [],
        "parties": [
            {
                "function": party.function,
                "owner": party.owner,
                "pod_uid": party.pod_uid,
                "addresses": list(party.addresses),
                "known": enforcer.is_known(party),
                "queue_pairs": party.queue_pairs,
                "region_bytes": party.region_bytes,
            }
            for party in enforcer.parties.all()
        ],
        "connected": enforcer.connected,
        "revoked": enforcer.revoked,
        "rules": list(enforcer.flows.to_json()),
        "denied": enforcer.denials.total,
    }
