"""The pictures of docs/console.md, one per view."""

from pathlib import Path
from typing import Final

from benchmarks.console.browser import Page
from benchmarks.console.scenes import LOST

_MANIFEST: Final = """apiVersion: gpu.tessera.dev/v1alpha1
kind: MIGLayout
metadata: {name: mixed}
spec:
  selector: {pool: h100}
  rollout: {onInUse: Evict, maxUnavailable: 5%}
  instances:
  - profile: 3g.40gb
  - {profile: 1g.10gb, count: 4}
"""
READ_ONLY_POLICY: Final = """apiVersion: rdma.tessera.dev/v1alpha1
kind: RDMANetworkPolicy
metadata: {name: read-only, namespace: training}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
  - from: [{podSelector: {}}]
    verbs: [CM, Send, Read]
"""
HISTORY: Final = "/history/gpus/gpu-0003-gpu-1"
VIEWS: Final = {
    "fleet": "/",
    "node": "/nodes/gpu-0003",
    "gpu": "/gpus/gpu-0003-gpu-1",
    "lost": f"/gpus/{LOST}",
    "fault": "/faults/xid-48-drill",
    "pod": "/pods/training/worker-0",
    "pods": "/pods?namespace=training",
    "slices": "/slices?text=1g.10gb%406",
    "pending": "/why",
    "why": "/why/training/llama-finetune-0",
    "rdma": "/rdma",
    "rdma-explain": "/rdma/explain?from=training/worker-4&to=training/worker-0",
    "events": "/events",
    "topologies": "/topology",
    "topology": "/topology/gpu-0003",
    "metrics": "/metrics",
    "rollouts": "/rollout",
    "rollout": "/rollout/halves",
    "performance": "/performance/gemm?m=16&n=8192&k=8192&dtype=bf16&board=h100-80gb&board=h200"
    "&board=b200",
    "model": "/performance/model?model=llama-2-70b&tp=4&batch=16&in=1024&out=256",
}


async def show_layout(page: Page, base: str) -> None:
    """Open the diff of an example."""
    await _paste(page, base + "/layout", _MANIFEST)


async def show_what_if(page: Page, base: str) -> None:
    """Evaluate an example of a policy."""
    await _paste(page, base + "/rdma/what-if", READ_ONLY_POLICY)


async def _paste(page: Page, url: str, manifest: str) -> None:
    """Submit a manifest in the form of a page, and wait for the answer."""
    await page.open(url)
    await page.evaluate(f"document.getElementById('manifest').value = {manifest!r}")
    await page.evaluate("document.querySelector('.paste').requestSubmit()")
    await page.wait_for(
        "document.querySelector('[aria-label=Result]') !== null"
        " && document.readyState === 'complete'"
    )


async def take(page: Page, url: str, folder: Path) -> None:
    """Write a picture of each view."""
    base = url.partition("/?")[0]
    await page.show_as(1280, 800)
    await page.open(url)
    await page.wait_for("document.querySelectorAll('.card').length === 40")
    await page.wait_for("document.getElementById('live').dataset.state === 'on'")
    await page.open(base + HISTORY)  # the exporter is read from now on
    for name, path in VIEWS.items():
        await page.show_as(1280, 640 if name == "events" else 800)
        await page.open(base + path)
        if name == "metrics":  # rates compare two readings
            await page.wait_for("document.querySelectorAll('.figures td b').length > 0")
        await page.save(folder / f"{name}.png")
        print(name)
    await page.open(base + VIEWS["gpu"])
    link = "document.querySelector('a[href^=\"/slices/\"]').getAttribute('href')"
    slice_page = await page.evaluate(link)
    await page.open(base + slice_page)
    await page.save(folder / "slice.png")
    await page.show_as(1280, 640)
    await page.open(base + HISTORY)
    await page.save(folder / "history.png")
    await page.show_as(1280, 1080)
    await show_layout(page, base)
    await page.save(folder / "layout.png")
    await show_what_if(page, base)
    await page.save(folder / "what-if.png")
    for name, width, height, dark in (("dark", 1280, 800, True), ("narrow", 390, 800, False)):
        await page.show_as(width, height, dark=dark)
        await page.open(base + "/")
        await page.save(folder / f"fleet-{name}.png")
