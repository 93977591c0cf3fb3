"""Find objects on the demo's cluster that neither the demo nor the tests created.

``make test`` runs this before it builds anything: a layout or a label that an earlier user of the
cluster left conflicts with the sample layout, and the tests would delete the object. It runs
before there is an environment, so it needs the standard library only.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# The objects of user-written kinds that `deploy/install` creates.
SAMPLES = {"gpupools.gpu.tessera.dev/demo", "miglayouts.gpu.tessera.dev/seven"}
# Labels with which users and tests configure nodes.
NODE_LABELS = (
    "e2e-clock",
    "e2e-interpreter",
    "e2e-layouts",
    "e2e-pool",
    "gpu.tessera.dev/mig.config",
    "gpu.tessera.dev/mig.strategy.config",
    "nvidia.com/mig.config",
    "nvidia.com/mig.strategy.config",
    "tessera.dev/allocation",
)
# A layout that follows a node's label exists as long as the label does, so labels go first.
KINDS = (
    "nodes",
    "gpufaults.gpu.tessera.dev",
    "miglayouts.gpu.tessera.dev",
    "gpupools.gpu.tessera.dev",
    "rdmanetworkpolicies.rdma.tessera.dev",
    "rdmanetworks.rdma.tessera.dev",
)


@dataclass(frozen=True)
class Leftover:
    """An object or label that may conflict with the tests.

    ``removal`` are the arguments with which kubectl removes it.
    """

    name: str
    removal: tuple[str, ...]


def find_leftovers(kind: str, items: Iterable[Any]) -> Iterator[Leftover]:
    """Yield the labels of nodes, or the objects of another kind, that the demo does not own.

    ``items`` are the objects of the kind, as the API server returns them.
    """
    for item in items:
        metadata = item["metadata"]
        name = f"{kind}/{metadata['name']}"
        if kind == "nodes":
            labels = metadata.get("labels", {})
            for label in (key for key in NODE_LABELS if key in labels):
                yield Leftover(
                    f"{name}, label {label}={labels[label]}",
                    ("label", "node", metadata["name"], f"{label}-"),
                )
        elif name not in SAMPLES:
            namespace = metadata.get("namespace")
            scope = ("-n", namespace) if namespace else ()
            location = f" in namespace {namespace}" if namespace else ""
            yield Leftover(name + location, ("delete", name, *scope, "--ignore-not-found"))


def _read_objects(kind: str) -> list[Any]:
    """Return the cluster's objects of a kind, none if there is no cluster or no such kind."""
    command = ["kubectl", "get", kind, "-A", "-o", "json", "--request-timeout=10s"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    items: list[Any] = json.loads(answer.stdout)["items"] if answer.returncode == 0 else []
    return items


def main() -> int:
    """Print the leftovers and how to remove them; with ``--remove``, remove them.

    Returns 1 if there are leftovers and they were not removed.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--remove", action="store_true", help="remove them")
    removes = parser.parse_args().remove
    leftovers = []
    for kind in KINDS:
        objects = _read_objects(kind)
        if kind == "nodes" and not objects:
            return 0  # without a cluster there is nothing to wait for
        leftovers += find_leftovers(kind, objects)
    if removes:
        for leftover in leftovers:
            print(f"removing {leftover.name}", flush=True)
            subprocess.run(["kubectl", *leftover.removal, "--request-timeout=120s"], check=True)
        return 0
    if leftovers:
        print(
            "error: the demo's cluster has objects that conflict with the tests:", file=sys.stderr
        )
        for leftover in leftovers:
            print(f"  {leftover.name}", file=sys.stderr)
        print(
            "Remove them with `make test-preflight remove=1`, or the cluster with `make clean`.",
            file=sys.stderr,
        )
    return 1 if leftovers else 0


if __name__ == "__main__":
    sys.exit(main())
