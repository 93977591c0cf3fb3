"""Reads Kubernetes objects from files, folders and standard input, or through kubectl.

Input is bounded in size and parsed without constructing Python objects; only dicts of known
kinds are returned. The user's own kubectl queries the cluster, so that the cluster's access
rules apply.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import click
import yaml

from vgpu_sim.cli import inputs
from vgpu_sim.cli.errors import InvalidInput
from vgpu_sim.yaml_nesting import check_nesting

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_LISTED: Final = (
    "pods",
    "namespaces",
    "rdmanetworks.rdma.tessera.dev",
    "rdmanetworkpolicies.rdma.tessera.dev",
)
KUBECTL_S: Final = 60
MAX_OBJECTS: Final = 200_000
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """A YAML loader that reads timestamps as text, as Kubernetes does."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in _SafeLoader.yaml_implicit_resolvers.items()
    }


class Document:
    """A Kubernetes object and the name of the file or other source from which it was read."""

    def __init__(self, content: dict[str, Any], source: str) -> None:
        self.content, self.source = content, source

    @property
    def kind(self) -> str:
        """The object's ``kind``."""
        return str(self.content.get("kind", ""))[:80]

    @property
    def group(self) -> str:
        """The object's API group; empty for the core group."""
        group, slash, _ = str(self.content.get("apiVersion", ""))[:200].rpartition("/")
        return group if slash else ""


def read(names: Sequence[str]) -> list[Document]:
    """Return the objects in files and folders; a List object is replaced by its items.

    Raises:
        InvalidInput: a file cannot be read, or contains something other than an object.
    """
    documents: list[Document] = []
    for name in names:
        for file in _files(name):
            for number, content in enumerate(_contents(file), 1):
                documents += _objects(content, f"{file}: document {number}", 0)
                if len(documents) > MAX_OBJECTS:
                    raise inputs.UnreadableFile(file, f"more than {MAX_OBJECTS} objects")
    return documents


def read_cluster(kubectl: str, context: str | None) -> list[Document]:
    """Query the cluster through kubectl; return the pods, namespaces, networks and policies that
    the user may read.

    Raises:
        click.ClickException: kubectl is missing, or refuses.
    """
    chosen = [f"--context={context}"] if context else []
    documents: list[Document] = []
    for resource in _LISTED:
        command = [kubectl, *chosen, "get", resource, "--all-namespaces", "-o", "json"]
        try:
            process = subprocess.run(command, capture_output=True, timeout=KUBECTL_S, check=False)
            if process.returncode:
                error_lines = process.stderr.decode(errors="replace").strip().splitlines()
                raise click.ClickException(
                    f"kubectl get {resource}: {error_lines[-1] if error_lines else 'failed'}"
                )
            documents += _objects(json.loads(process.stdout), f"kubectl get {resource}", 0)
        except OSError as error:
            hint = "give manifests with -f, or the program with --kubectl"
            raise click.ClickException(f"{kubectl}: {error.strerror}; {hint}") from error
        except subprocess.TimeoutExpired as error:
            raise click.ClickException(
                f"kubectl get {resource}: no answer within {KUBECTL_S} s"
            ) from error
        except (ValueError, RecursionError) as error:
            raise click.ClickException(f"kubectl get {resource}: the answer is not JSON") from error
    return documents


def _files(name: str) -> Iterator[str]:
    folder = Path(name)
    if name == "-" or not folder.is_dir():
        yield name
        return
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        raise inputs.UnreadableFile(name, error.strerror or str(error)) from error
    if not paths:
        raise inputs.UnreadableFile(name, f"no {', '.join(_SUFFIXES)} file in this folder")
    yield from map(str, paths)


def _contents(file: str) -> Iterator[Any]:
    text = inputs.read_text(file)
    try:
        check_nesting(text, _Loader)
        yield from (document for document in yaml.load_all(text, _Loader) if document is not None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise inputs.UnreadableFile(file, f"{line}{problem}") from error
    except (ValueError, RecursionError) as error:
        raise inputs.UnreadableFile(file, f"not YAML: {str(error)[:100]}") from error


def _objects(content: Any, source: str, depth: int) -> Iterator[Document]:
    if not isinstance(content, dict):
        raise InvalidInput(f"{source}: not a Kubernetes object")
    document = Document(content, source)
    items = content.get("items")
    if not document.kind.endswith("List") or not isinstance(items, list):
        yield document
        return
    if depth:
        raise InvalidInput(f"{source}: a List object contains another List object")
    for index, item in enumerate(items):
        if isinstance(item, dict):  # items of a typed list may omit their kind
            item = {"kind": document.kind.removesuffix("List"), **item}
        yield from _objects(item, f"{source}, item {index}", 1)
