"""Pod network of one node: a CNI file, routes to the other nodes' pods, and masquerading.

Runs as a DaemonSet and needs only the Python of the base image. Addresses come from each Node's
``spec.podCIDR`` and ``InternalIP``.
"""

# ruff: noqa: T201 - a pod logs to its output
import json
import os
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CNI = Path("/etc/cni/net.d")
CLUSTER_CIDR = "10.244.0.0/16"  # kind's default pod subnet
INTERVAL_S = 10

MASQUERADE = """
table ip podnet {{}}
delete table ip podnet
table ip podnet {{
  chain postrouting {{
    type nat hook postrouting priority 100
    ip saddr {cidr} ip daddr != {cluster} masquerade
  }}
}}
"""


def list_nodes() -> list[dict]:
    """Return all nodes from the API server. Raises OSError if it does not respond."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(
        f"https://{host}:{port}/api/v1/nodes", headers={"Authorization": f"Bearer {token}"}
    )
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=tls, timeout=10) as answer:
        return json.load(answer)["items"]


def write_cni(cidr: str) -> None:
    """Configure masquerading and CNI so that this node's pods get addresses in ``cidr``.

    The container runtime reads the CNI file as soon as it exists.
    """
    subprocess.run(
        ["nft", "-f", "-"],
        input=MASQUERADE.format(cidr=cidr, cluster=CLUSTER_CIDR),
        text=True,
        check=True,
    )
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": cidr}]],
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": ipam},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    new = CNI / ".10-podnet.conflist.new"
    new.write_text(json.dumps({"cniVersion": "0.4.0", "name": "podnet", "plugins": plugins}))
    new.rename(CNI / "10-podnet.conflist")


def reconcile(own_name: str, written: str) -> str:
    """Update this node's CNI file and routes from the Node objects; return the CNI file's range."""
    for node in list_nodes():
        cidr = node["spec"].get("podCIDR", "")
        if node["metadata"]["name"] == own_name:
            if cidr and cidr != written:
                write_cni(cidr)
                written = cidr
        elif cidr:
            addresses = node["status"]["addresses"]
            via = next(a["address"] for a in addresses if a["type"] == "InternalIP")
            subprocess.run(["ip", "route", "replace", cidr, "via", via], check=True)
    return written


def main() -> None:
    """Reconcile until the process ends."""
    written = ""
    while True:
        try:
            written = reconcile(os.environ["NODE_NAME"], written)
        except (OSError, subprocess.CalledProcessError, StopIteration) as error:
            print("will try again:", error)
            time.sleep(1)
        else:
            time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main()
