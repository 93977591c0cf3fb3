"""Reads the manifests that put policies on a fabric: what kubectl applies, and nothing else."""

from collections.abc import Iterable
from pathlib import Path

import click
import yaml

from rdma.errors import PolicyError
from vgpu_sim.cli.clients.fabric_policy import Document, key_of

MAX_BYTES = 1 << 20


def read(
    _context: click.Context, _parameter: click.Parameter, paths: Iterable[Path]
) -> list[Document]:
    """Return the objects of some files, each checked. Raises click.BadParameter."""
    return [document for path in paths for document in _documents(path)]


def _documents(path: Path) -> list[Document]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise click.BadParameter(f"{path}: more than {MAX_BYTES} bytes")
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
        for place, document in enumerate(documents):
            if not isinstance(document, dict):
                raise click.BadParameter(f"{path}: document {place} is no object")
            key_of(document)
    except (OSError, ValueError, RecursionError, yaml.YAMLError, PolicyError) as err:
        raise click.BadParameter(f"{path}: {err}") from err
    return documents
