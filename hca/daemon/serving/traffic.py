"""The one operation of hcad's telemetry socket: counters of traffic and of denials.

Those of a port begin with each pod, those of a kind when it is listed again after it was dropped;
a successor starts at 0.
"""

from collections.abc import Mapping
from typing import Any

from hca.daemon.policy.parties import Party
from hca.daemon.serving.pods import PodServer
from vgpu_sim.system.admin_socket.parameters import fields
from vgpu_sim.system.admin_socket.server import Operation


def operations(server: PodServer) -> dict[str, Operation]:
    """Return the operations of the telemetry socket, by name. They change nothing."""

    async def traffic(params: dict[str, Any]) -> dict[str, Any]:
        fields(params, {})
        await server.enforcer.collect_counts()
        return read_traffic(server)

    return {"traffic": traffic}


def read_traffic(server: PodServer) -> dict[str, Any]:
    """Return the counters of every function that a pod holds, and those by pairs of pods.

    If a pod holds several functions, they share its address and thereby the wire: their traffic is
    listed at the first of them.
    """
    enforcer = server.enforcer
    enforcer.flows.collect_counts()
    flows, denials = enforcer.flows.by_pods, enforcer.denials.by_pods
    return {
        "functions": [
            _function(server, party)
            for party in enforcer.parties.all()
            if any(enforcer.parties.at(address) is party for address in party.addresses)
        ],
        "flows": [
            {
                "source": pair.source,
                "destination": pair.destination,
                "verb": pair.verb,
                "operations": count.operations,
                "bytes": count.bytes,
            }
            for pair, count in flows.counts.items()
        ],
        "denials": [
            {
                "source": kind.source,
                "destination": kind.destination,
                "verb": kind.verb,
                "policies": list(kind.policies),
                "audited": kind.audited,
                "operations": count.operations,
            }
            for kind, count in denials.counts.items()
        ],
        "unlisted_operations": flows.dropped.operations,
        "unlisted_bytes": flows.dropped.bytes,
        "unlisted_denials": denials.dropped.operations,
        "revoked": enforcer.revoked,
    }


def _function(server: PodServer, party: Party) -> Mapping[str, Any]:
    sums = server.wires.count_traffic(party)
    pod_parties = [
        pod_party
        for pod_party in server.enforcer.parties.all()
        if pod_party.pod_uid == party.pod_uid
    ]
    return {
        "function": party.function,
        "pod": party.owner,
        "received_bytes": sums["received_bytes"],
        "sent_bytes": sums["sent_bytes"],
        "received_packets": sums["received"],
        "sent_packets": sums["sent"],
        "local_received_bytes": party.local_received_bytes,
        "local_sent_bytes": party.local_sent_bytes,
        "queue_pairs": sum(pod_party.queue_pairs for pod_party in pod_parties),
        "region_bytes": sum(pod_party.region_bytes for pod_party in pod_parties),
    }
