"""Composition root: the command ``tessera-operator`` and its subcommands."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import click

from gpu_operator import config, errors
from gpu_operator.app import check, cleanup, serve, takeover, validation
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.port import Kube


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def main(context: click.Context) -> None:
    """Run the operator, or a subcommand."""
    if context.invoked_subcommand is None:
        context.invoke(_serve)


@main.command("serve")
def _serve() -> None:
    """Reconcile until SIGTERM or SIGINT. This is the default command."""
    try:
        settings, identity = config.load()
    except errors.ConfigError as err:
        raise click.ClickException(str(err)) from err
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    sys.exit(_run(serve.serve(settings, identity)))


@main.command("cleanup")
@click.option(
    "--on-in-use", type=click.Choice(["Evict", "Wait"]), default="Evict", show_default=True
)
@click.option("--timeout", "timeout_s", type=click.IntRange(min=1), default=180, show_default=True)
@click.option("--retire-resources", is_flag=True, help="Wait until no node lists a resource as 0.")
def _cleanup(on_in_use: str, timeout_s: int, retire_resources: bool) -> None:
    """Delete all layouts and pools, and wait until the operator has removed their GPUs."""
    request = cleanup.Request(on_in_use == "Evict", timeout_s, retire_resources)
    sys.exit(_run(_with_cluster(lambda kube: cleanup.cleanup(kube, request, click.echo))))


@main.command("check")
@click.option("--deployment", required=True, help="Name of the operator's Deployment.")
@click.option("--image", required=True, help="Tessera's image, for a pod that runs a kernel.")
@click.option("--pull-policy", default="IfNotPresent", show_default=True)
@click.option("--pull-secret", "pull_secrets", multiple=True, help="Name of a Secret.")
def _check(deployment: str, image: str, pull_policy: str, pull_secrets: tuple[str, ...]) -> None:
    """Check an installation: the operator is available, pools and layouts are ready, a pod
    computes.
    """
    who, runs = config.read_identity(), validation.Image(image, pull_policy, pull_secrets)
    sys.exit(_run(_with_cluster(lambda kube: check.check(kube, who, deployment, runs, click.echo))))


@main.command("await-takeover")
@click.option("--lease", required=True, help="Name of the operator's Lease.")
@click.option(
    "--configuration", required=True, help="The chart's identifier of the new configuration."
)
@click.option("--timeout", "timeout_s", type=click.IntRange(min=1), default=240, show_default=True)
def _await_takeover(lease: str, configuration: str, timeout_s: int) -> None:
    """Wait until the operator has reconciled every object once with a configuration."""
    namespace = config.read_identity().namespace
    expected_takeover = takeover.Takeover(namespace, lease, configuration, timeout_s)
    sys.exit(
        _run(
            _with_cluster(lambda kube: takeover.await_takeover(kube, expected_takeover, click.echo))
        )
    )


async def _with_cluster(use: Callable[[Kube], Coroutine[Any, Any, int]]) -> int:
    kube = await KubernetesCluster.connect()
    try:
        return await use(kube)
    finally:
        await kube.close()


def _run(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except errors.OperatorError as err:
        raise click.ClickException(str(err)) from err
