"""``top --inference``: requests and latencies of inference pods, from two readings."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from console.kubectl import output
from console.kubectl.access import Access, run_connected
from console.model.cluster import ClusterModel
from console.model.exporters import Proxy
from console.model.inference import Inference
from console.views import inference
from console.views.inference import Latency, Pod, Row
from facts.wording import count_of

_WITHIN_S: Final = 10.0  # for which each reading waits


def read_rows(
    access: Access, model: ClusterModel, nodes: Sequence[str], pause_s: float
) -> list[Row]:
    """Read the pods that expose metrics and hold slices twice. Raises ClickException."""
    pods = inference.find_pods(
        model.world(), model.pods.values(), lambda pod: not nodes or pod.node in nodes
    )
    if len(pods) > inference.SHOWN:
        unread_count = len(pods) - inference.SHOWN
        click.echo(
            f"warning: {unread_count} more pods are not read: choose nodes or a namespace", err=True
        )
    pods = pods[: inference.SHOWN]
    if not pods:
        return []
    click.echo(f"Reading {count_of(len(pods), 'pod')} twice, {pause_s:g} s apart", err=True)
    return run_connected(access, lambda cluster: _read(cluster, pods, pause_s))


async def _read(cluster: Proxy, pods: Sequence[Pod], pause_s: float) -> list[Row]:
    reader = Inference(cluster)
    await reader.refresh((pod.target for pod in pods), _WITHIN_S)
    await asyncio.sleep(pause_s)
    await reader.refresh((pod.target for pod in pods), _WITHIN_S, all_due=True)
    return inference.make_rows(pods, reader.history, {})


def write_rows(rows: Iterable[Row], form: str) -> None:
    """Print a line for each pod, the pods with most requests first."""
    pod_rows = list(rows)
    if form in ("json", "yaml"):
        output.write_document({"pods": [_document(row) for row in pod_rows]}, form)
        return
    if not pod_rows:
        text = "No pod that holds a slice exposes metrics (prometheus.io/scrape, a port `metrics`)."
        click.echo(text, err=True)
        return
    titles = ("P50", "P95", "P99", "MEAN", "FIRST-TOKEN-P95")
    head = ("NAMESPACE", "POD", "SERVER", "REQUESTS/S", *titles, "SLICES", "PROBLEM")
    output.write_table(head, map(_cells, pod_rows))


def _cells(row: Row) -> Sequence[str]:
    figures, target = row.figures, row.pod.target
    latencies = (*figures.latencies, figures.mean, figures.first_token)
    return (
        target.namespace,
        target.name,
        figures.server or "-",
        "-" if figures.rate is None else inference.format_rate(figures.rate),
        *("-" if latency is None else str(latency) for latency in latencies),
        ",".join(
            f"{found_slice.gpu.name}/{found_slice.slice.place}" for found_slice in row.pod.slices
        ),
        figures.problem[:200] or "-",
    )


def _document(row: Row) -> dict[str, Any]:
    figures, target = row.figures, row.pod.target
    names = [f"p{q * 100:g}" for q in inference.QUANTILES]
    return {
        "namespace": target.namespace,
        "pod": target.name,
        "server": figures.server,
        "models": list(figures.models),
        "requestsPerSecond": figures.rate,
        "windowSeconds": figures.window_s,
        "latencySeconds": {
            name: _latency(latency) for name, latency in zip(names, figures.latencies, strict=True)
        },
        "meanSeconds": _latency(figures.mean),
        "firstTokenP95Seconds": _latency(figures.first_token),
        "slices": [
            {
                "gpu": found_slice.gpu.name,
                "slice": str(found_slice.slice.place),
                "uuid": found_slice.slice.uuid,
            }
            for found_slice in row.pod.slices
        ],
        "problem": figures.problem,
    }


def _latency(latency: Latency | None) -> dict[str, Any] | None:
    return None if latency is None else {"value": latency.seconds, "isLowerBound": latency.is_above}
