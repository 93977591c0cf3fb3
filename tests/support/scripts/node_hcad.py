"""A program: a node's hcad that treats every client as a program of the pod POD_UID at ADDRESS.

It really reads ``/proc``; only the results are replaced, because no client is in a pod.
"""

import ipaddress
from pathlib import Path
from typing import Final

from hca.binding.addresses import address_of
from hca.daemon.common.functions import Doorkeeper, IpAddress, addresses_of_process
from hca.daemon.serving import node, pods
from vgpu_sim.system.peers import PodUid

POD_UID: Final = "1" * 32
ADDRESS: Final = str(address_of(0).ip)


def pod_of(pid: int) -> PodUid:
    """Return the pod of a client, if its control group can be read."""
    assert Path(f"/proc/{pid}/cgroup").read_bytes()
    return PodUid(POD_UID)


def addresses_of(pid: int) -> frozenset[IpAddress]:
    """Return the addresses of a client, if those of its namespace can be read."""
    assert addresses_of_process(pid)
    return frozenset({ipaddress.ip_address(ADDRESS)})


if __name__ == "__main__":
    pods.Doorkeeper = lambda: Doorkeeper(pod_of, addresses_of)  # type: ignore[assignment,misc]
    node.main()
