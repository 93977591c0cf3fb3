"""``tessera rdma policy``: policies of a fabric without a cluster.

The exit status is 0 on success, 1 if hcad refuses or the fabric has no members, and 2 if the
input cannot be read.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from facts.wording import count_of
from hca.contract.fabric_files import ADMIN_NAME
from rdma.errors import PolicyError
from vgpu_sim import config
from vgpu_sim.cli import rdma_files
from vgpu_sim.cli.clients.admin import AdminClient, AdminRefused
from vgpu_sim.cli.clients.fabric import FabricFailed, lock_fabric
from vgpu_sim.cli.clients.fabric_policy import Document, change, key_of
from vgpu_sim.cli.errors import fail
from vgpu_sim.cli.groups import VerbGroup
from vgpu_sim.cli.run import run_hca

_fabric_option = click.option(
    "--fabric",
    required=True,
    callback=run_hca.check_name,
    metavar="NAME",
    help="Name of a fabric that has members.",
)
_files_option = click.option(
    "-f",
    "--filename",
    "documents",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    callback=rdma_files.read,
    metavar="FILE",
    help="Manifest of RDMANetworkPolicies and RDMANetworks.",
)


@click.group(cls=VerbGroup)
def policy() -> None:
    """Change and show the policies of a fabric of `tessera run`."""


@policy.command()
@_fabric_option
@_files_option
def apply(fabric: str, documents: list[Document]) -> None:
    """Put policies on a fabric, and wait until the connections that they deny are revoked."""
    _change(fabric, documents, [])


@policy.command()
@_fabric_option
@_files_option
def delete(fabric: str, documents: list[Document]) -> None:
    """Remove the policies named in a manifest from a fabric."""
    _change(fabric, [], [key_of(document) for document in documents])


@policy.command()
@_fabric_option
def status(fabric: str) -> None:
    """Print the enforced policies and their effects, as JSON."""
    try:
        with (
            lock_fabric(config.private_dir_parents(), fabric) as directory,
            AdminClient(directory, name=ADMIN_NAME) as admin,
        ):
            _echo(admin.call("policy-status"))
    except (FabricFailed, AdminRefused, OSError) as err:
        fail(err)


def _change(fabric: str, documents: list[Document], removed: list[str]) -> None:
    try:
        with lock_fabric(config.private_dir_parents(), fabric) as directory:
            answer = change(directory, documents, removed)
    except (FabricFailed, AdminRefused, PolicyError, OSError) as err:
        fail(err)
    for refused in answer.get("refused", ()):
        click.echo(f"warning: not enforced: {refused}", err=True)
    if answer:
        click.echo(
            f"generation {answer['generation']}:"
            f" {count_of(answer['revoked'], 'queue pair')} revoked,"
            f" {answer['narrowed']} may do less"
        )


def _echo(value: Mapping[str, Any]) -> None:
    click.echo(json.dumps(value, indent=2))
