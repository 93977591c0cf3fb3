"""Composition root: ``tessera-operator`` and its verbs."""

import asyncio
import logging
import sys

import click

from gpu_operator import config, errors
from gpu_operator.app import serve as serving


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def main(context: click.Context) -> None:
    """Run the operator, or one of its verbs."""
    if context.invoked_subcommand is None:
        context.invoke(serve)


@main.command()
def serve() -> None:
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
    sys.exit(asyncio.run(serving.serve(settings, identity)))
