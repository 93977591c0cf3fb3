"""Connects to the cluster of a kubeconfig, for ``tessera`` and ``kubectl tessera``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from console.support import bundle, checks, events, installation
from diagnosis.findings import FAIL, OK, Finding
from gpu_operator import errors
from gpu_operator.kube import connection
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.logs import PodLogs
from gpu_operator.kube.port import Source


def check(kubeconfig: Path | None, context: str | None, namespace: str = "") -> list[Finding]:
    """Return the findings about a cluster; without a kubeconfig there is one that states it."""
    try:
        return asyncio.run(check_cluster(kubeconfig, context, namespace))
    except errors.ConfigError as err:
        if kubeconfig or context or connection.has_kubeconfig():
            remedy = "repair the kubeconfig, name another one, or use --no-cluster"
            return [Finding("cluster", "access", FAIL, str(err), remedy)]
        return [Finding("cluster", "access", OK, f"not checked: {err}")]


def collect(kubeconfig: Path | None, context: str | None, namespace: str = "") -> Mapping[str, str]:
    """Return the files of a bundle about a cluster, or one that states why there are none."""
    try:
        return asyncio.run(collect_cluster(kubeconfig, context, namespace))
    except errors.ConfigError as err:
        return {"cluster/errors.txt": f"{err}\n"}


async def check_cluster(
    kubeconfig: Path | None, context: str | None, namespace: str = ""
) -> list[Finding]:
    """Return the findings about a cluster. Raises ConfigError."""
    async with connect(kubeconfig, context) as (source, _):
        return checks.check_all(await installation.read(source, namespace))


async def collect_cluster(
    kubeconfig: Path | None, context: str | None, namespace: str = ""
) -> Mapping[str, str]:
    """Return the files of a bundle about a cluster.

    Raises:
        ConfigError: there is no connection, or a namespace is given that has no operator.
    """
    async with connect(kubeconfig, context) as (source, logs):
        cluster_installation = await installation.read(source, namespace)
        if namespace and cluster_installation.absence:
            raise errors.ConfigError(cluster_installation.absence)
        await installation.read_rdma(source, cluster_installation, events.SELECTIONS)
        return await bundle.collect(cluster_installation, logs)


@contextlib.asynccontextmanager
async def connect(
    kubeconfig: Path | None, context: str | None
) -> AsyncIterator[tuple[Source, bundle.Logs]]:
    """Connect to the API server. Raises ConfigError."""
    async with connection.open_kubeconfig(kubeconfig, context) as client:
        yield KubernetesCluster(client), PodLogs(client)
