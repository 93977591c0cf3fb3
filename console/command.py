"""``tessera ui``: the console of a cluster, on this machine's loopback address."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Final, NoReturn

import click

from console import serving
from console.model.exporters import Exporters
from gpu_operator import errors
from gpu_operator.kube import connection
from gpu_operator.kube.client import KubernetesCluster

# As of all verbs of `tessera` (docs/command-line.md).
_FAILED: Final = 1
_INVALID: Final = 2
# Objects of a list that are in memory at a time: a pod has some ten kilobytes.
_PAGE: Final = 100


@click.command()
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="File to use.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: its current.")
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Read pods, claims, events and policies of this namespace only; default: of all.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; default: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the URL, and open no browser.")
@click.option(
    "--in-cluster",
    is_flag=True,
    help="Use the pod's service account, and accept the ports of `kubectl port-forward`.",
)
def command(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    port: int,
    no_browser: bool,
    in_cluster: bool,
) -> None:
    """Open a page that shows a cluster's GPUs, slices, pending pods and RDMA policies.

    The page is served on loopback only, to browsers that opened the printed URL, until Ctrl-C. It
    reads the cluster with your kubeconfig's rights, and writes nothing. Exit status: 2 if there is
    no usable kubeconfig, 1 if the port is in use.
    """
    logging.basicConfig(level=logging.WARNING, format="tessera ui: %(message)s")
    serving.return_large_blocks()
    try:
        listeners = serving.listen(port)
    except OSError as err:
        _fail(f"port {port}: {err.strerror}; choose another with --port", _FAILED)
    with contextlib.ExitStack() as stack, contextlib.suppress(asyncio.CancelledError):
        for listener in listeners:
            stack.enter_context(listener)
        asyncio.run(_serve(listeners, kubeconfig, context, namespace, not no_browser, in_cluster))


async def _serve(
    listeners: Sequence[socket],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    browse: bool,
    in_cluster: bool,
) -> None:
    try:
        if in_cluster:
            client, name = await connection.api_client(), "this cluster"
        else:
            client, name = await connection.kubeconfig_client(kubeconfig, context)
    except errors.ConfigError as err:
        _fail(str(err), _INVALID)
    cluster = KubernetesCluster(client, _PAGE)
    with contextlib.ExitStack() as pages:

        def report(url: str) -> None:
            click.echo(f"console of {name}: {url}")
            click.echo("Ctrl-C ends it.", err=True)
            if browse and not in_cluster:
                pages.enter_context(serving.browser_page(url))

        try:
            await serving.serve(
                cluster,
                listeners,
                name,
                serving.new_token(),
                namespace=namespace,
                exporters=Exporters(cluster),
                any_port=in_cluster,
                on_ready=report,
            )
        finally:
            await cluster.close()


def _fail(message: str, status: int) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(status)
