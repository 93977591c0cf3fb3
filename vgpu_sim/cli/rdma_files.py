"""Reads manifests of policies for a fabric: RDMANetworkPolicies and RDMANetworks only."""

from collections.abc import Sequence
from pathlib import Path

import click

from rdma.errors import PolicyError
from vgpu_sim.cli.clients.fabric_policy import Document, key_of


def read(
    _context: click.Context, _parameter: click.Parameter, paths: Sequence[Path]
) -> list[Document]:
    """Read policies and networks from files and validate each object; return the objects. Raises
    click.BadParameter.
    """
    if not paths:
        return []
    from vgpu_sim.cli import manifests  # PyYAML, which most runs do not need

    try:
        read = manifests.read([str(path) for path in paths])
    except click.ClickException as err:
        raise click.BadParameter(err.format_message()) from err
    for document in read:
        try:
            key_of(document.content)
        except PolicyError as err:
            raise click.BadParameter(f"{document.source}: {err}") from err
    return [document.content for document in read]
