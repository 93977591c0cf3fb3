"""Composition root: ``tessera-operator`` and its verbs."""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from typing import Any

import click

from gpu_operator import config, errors
from gpu_operator.app import check, cleanup, serve
from gpu_operator.kube.client import LightkubeCluster


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def main(context: click.Context) -> None:
    """Run the operator, or one of its verbs."""
    if context.invoked_subcommand is None:
        context.invoke(_serve)


@main.command("serve")
def _serve() -> None:
    """Reconcile until told to stop. Without a verb this is what happens."""
    try:
        settings, identity = config.load()
    except errors.ConfigError as err:
        raise click.ClickException(str(err)) from err
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    sys.exit(_run(serve.serve(settings, identity)))


@main.command("cleanup")
@click.option(
    "--on-in-use", type=click.Choice(["Evict", "Wait"]), default="Evict", show_default=True
)
@click.option("--timeout", "timeout_s", type=click.IntRange(min=1), default=180, show_default=True)
@click.option("--retire-resources", is_flag=True, help="Wait until no node lists a resource as 0.")
def _cleanup(on_in_use: str, timeout_s: int, retire_resources: bool) -> None:
    """Delete all layouts and pools and wait until the operator has removed their GPUs."""
    request = cleanup.Request(on_in_use == "Evict", timeout_s, retire_resources)
    sys.exit(_run(cleanup.cleanup(LightkubeCluster(), request, click.echo)))


@main.command("check")
@click.option("--deployment", required=True, help="The operator's Deployment.")
def _check(deployment: str) -> None:
    """Check an installation: custom resources served, operator available, lease held."""
    sys.exit(_run(check.check(LightkubeCluster(), config.identity(), deployment, click.echo)))


def _run(work: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(work)
    except errors.OperatorError as err:
        raise click.ClickException(str(err)) from err
