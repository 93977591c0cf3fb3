"""Show a CUDA program on a slice of a simulated GPU, on the cluster that KUBECONFIG names."""

# ruff: noqa: T201 - printing is its purpose
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mig.spec import format_place

EXAMPLES = Path(__file__).parents[1] / "examples"
VERIFIED = "16777216 results verified"
POD_TIMEOUT_S = 180

TRY_NEXT = """
Try next (make shell puts kubectl on PATH):
  kubectl get gpus,miglayouts -o wide
  kubectl apply -f examples/layout-h100-mixed.yaml     # 3g.40gb + 2x 2g.20gb on the second GPU
  kubectl scale deployment tenants --replicas 20       # more pods than slices: see the Pending ones
  kubectl explain gpupool.spec
  make test                                            # everything, the cluster's tests included
  make clean                                           # remove everything
"""


def kubectl(*arguments: str | Path) -> str:
    """Run kubectl and return its output; if it fails, exit with its error message."""
    process = subprocess.run(["kubectl", *map(str, arguments)], capture_output=True, text=True)
    if process.returncode:
        sys.exit(f"kubectl {' '.join(map(str, arguments))}: {process.stderr.strip()}")
    return process.stdout


def get(*arguments: str) -> Any:
    """Return what ``kubectl get -o json`` prints."""
    return json.loads(kubectl("get", *arguments, "-o", "json"))


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print columns as wide as their widest cell."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        print(
            "  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        )


def slices() -> list[tuple[str, ...]]:
    """Return one row for each slice in the cluster: node, GPU, place, UUID, holders."""
    rows = []
    for gpu in get("gpus")["items"]:
        spec, status = gpu["spec"], gpu.get("status", {})
        for item in status.get("slices", []):
            holders = ", ".join(f"{h['namespace']}/{h['name']}" for h in item.get("holders", []))
            where = format_place(item["profile"], item["start"], item.get("computeStart"))
            rows.append((spec["nodeName"], str(spec["index"]), where, item["uuid"], holders or "-"))
    return sorted(rows)


def wait_for_tenants() -> None:
    """Start three pods that keep a slice each, and wait until the GPUs' status names them."""
    kubectl("apply", "-f", EXAMPLES / "deployment-tenants.yaml")
    kubectl("rollout", "status", "deployment/tenants", "--timeout=180s")
    end = time.monotonic() + 30
    while sum("/tenants-" in row[-1] for row in slices()) < 3:
        if time.monotonic() > end:
            sys.exit(
                "the GPUs' status does not name the pods that hold slices: kubectl describe gpus"
            )
        time.sleep(0.5)


def run_vectoradd() -> str:
    """Run the sample pod until it has ended, and return its output."""
    kubectl("delete", "pod", "vectoradd", "--ignore-not-found", "--wait")
    kubectl("apply", "-f", EXAMPLES / "pod-vectoradd.yaml")
    end, last = time.monotonic() + POD_TIMEOUT_S, ""
    while True:
        status = get("pod", "vectoradd")["status"]
        if status["phase"] != last:
            last = status["phase"]
            print(f"  pod vectoradd: {last}", flush=True)
        if last in ("Succeeded", "Failed"):
            return kubectl("logs", "vectoradd")
        if time.monotonic() > end:
            print(kubectl("describe", "pod", "vectoradd"), file=sys.stderr)
            sys.exit(f"pod vectoradd is {last} after {POD_TIMEOUT_S} s")
        time.sleep(0.3)


def main() -> None:
    """Start tenants and the sample pod; print the slices with their holders, and the pod's
    output.
    """
    print("Three pods that keep a slice each, then one that computes on 16 Mi elements:")
    wait_for_tenants()
    output = run_vectoradd()
    print("\nSlices, and which pod holds which:")
    table(("NODE", "GPU", "SLICE", "UUID", "HELD BY"), slices())
    print("\nkubectl logs vectoradd:")
    print("".join(f"  {line}\n" for line in output.splitlines()), end="")
    if VERIFIED not in output.splitlines():
        sys.exit(f'the program did not print "{VERIFIED}": kubectl describe pod vectoradd')
    print(TRY_NEXT, end="")


if __name__ == "__main__":
    main()
