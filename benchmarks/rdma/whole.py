"""The complete table of RDMA's speed: ``python -m benchmarks.rdma.whole``, run by `make
bench-rdma`.

Exit status 0: every goal met; 1: one is missed or was not measured. Figures that need the nodes
of a cluster are measured by the tests on a cluster, as the table states.
"""

import json
import subprocess
import sys
from importlib import metadata

from benchmarks.rdma import operator_loop, policies, programs, wire, writes
from benchmarks.report import Row, Section, machine, table

_CLUSTER = "tests/e2e/rdma/test_rdma_wire.py and test_rdma_policy.py, on a cluster"


def _wire() -> Section:
    """Measure the wire in a process that may create network namespaces."""
    process = subprocess.run(wire.inside("--json"), capture_output=True, text=True, check=False)
    try:
        rows = json.loads(process.stdout)["sections"][0]["rows"]
    except (ValueError, KeyError, IndexError):
        why = process.stderr.strip().rpartition("\n")[2] or f"status {process.returncode}"
        return Section("wire", (Row("wire", "wire", 0.0, "GB/s", 0.8, missing=why),))
    for row in rows:
        del row["verdict"]
    return Section("wire", tuple(Row(**row) for row in rows))


def _cluster() -> Section:
    rows = (
        Row("cluster", "kind, between nodes, path MTU 1024", 0.0, "GB/s", 0.3, True, _CLUSTER),
        Row("cluster", "edit until all nodes enforce it, p99", 0.0, "ms", 500.0, False, _CLUSTER),
    )
    return Section("cluster", rows)


def _versions() -> str:
    versions = [f"tessera {metadata.version('tessera')}"]
    for package in ("perftest", "rdmacm-utils", "libibverbs-dev"):
        process = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Package} ${Version}", package],
            capture_output=True,
            text=True,
            check=False,
        )
        versions.append(process.stdout if process.returncode == 0 else f"{package} -")
    return ", ".join(versions)


def main() -> int:
    """Print the table; return the exit status."""
    print(machine(), _versions(), sep="\n", flush=True)
    sections = [
        writes.measure(),
        _wire(),
        programs.measure(),
        policies.measure(),
        operator_loop.measure(),
        _cluster(),
    ]
    print(table(sections))
    return int(any(row.verdict not in ("met", "") for section in sections for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
