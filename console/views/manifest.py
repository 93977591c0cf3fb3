"""Reads the manifest of a MIGLayout, and refuses what the API server would refuse."""

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import yaml

from gpu_operator.api.v1alpha1 import GROUP, VERSION
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutSpec
from vgpu_sim.yaml_nesting import NestingError, check_nesting

LONGEST: Final = 64 * 1024  # characters of a manifest
KIND: Final = "MIGLayout"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# PyYAML's constructors raise these for values that do not fit an explicit tag: `!!timestamp x`.
_INVALID: Final = (
    yaml.YAMLError,
    ValueError,
    RecursionError,
    AttributeError,
    TypeError,
    KeyError,
    OverflowError,
)
_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")  # RFC 1123 subdomain
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LONGEST_NAME: Final = 253
_UNKNOWN: Final = "Extra inputs are not permitted"


class ManifestError(Exception):
    """The text is not one valid MIGLayout."""


def read_layout(text: str) -> dict[str, Any]:
    """Parse the manifest of one MIGLayout.

    Raises:
        ManifestError: the text is too long, is not YAML, or describes something else.
    """
    documents = read_documents(text)
    if len(documents) != 1:
        raise ManifestError(f"one MIGLayout is expected, the text has {len(documents)} documents")
    (document,) = documents
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ManifestError("kind: a MIGLayout is expected")
    if document.get("apiVersion") != f"{GROUP}/{VERSION}":
        raise ManifestError(f"apiVersion: {GROUP}/{VERSION} is expected")
    _refuse_unknown(document, _FIELDS, "")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise ManifestError("metadata.name: missing")
    _check_metadata(metadata)
    return document


def read_documents(text: str) -> list[Any]:
    """Parse the documents of a text.

    Raises:
        ManifestError: the text is too long, is nested too deeply, or is not YAML.
    """
    if len(text) > LONGEST:
        raise ManifestError(f"the manifest has more than {LONGEST} characters")
    try:
        check_nesting(text, _Loader)
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except NestingError as err:
        where = f"line {err.problem_mark.line + 1}: " if err.problem_mark is not None else ""
        raise ManifestError(f"{where}{err.problem}") from err
    except _INVALID as err:
        raise ManifestError(f"not YAML: {str(err)[:300]}") from err


def explain_problem(problem: str) -> str:
    """Return what is wrong with a spec; of an unknown field with the fields that may be meant."""
    return "; ".join(map(_explain_one, problem.split("; ")))


def _explain_one(problem: str) -> str:
    where, _, text = problem.partition(": ")
    if text != _UNKNOWN:
        return problem
    name = where.rpartition(".")[2]
    names = difflib.get_close_matches(name, {field.rpartition(".")[2] for field in _fields()}, 1)
    meant = [field for field in _fields() if field.rpartition(".")[2] in names]
    hint = f" (is {' or '.join(meant)} meant?)" if meant else ""
    return f"{where}: unknown field{hint}"


@cache
def _fields() -> tuple[str, ...]:
    """Return the paths of all fields of a layout's spec, such as ``spec.rollout.onInUse``."""
    schema = MIGLayoutSpec.model_json_schema()
    return tuple(_paths(schema, schema.get("$defs", {}), "spec"))


def _paths(schema: Mapping[str, Any], definitions: Mapping[str, Any], where: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for subschema in schema.get("anyOf", ()):
        yield from _paths(subschema, definitions, where)
    if "items" in schema:
        yield from _paths(schema["items"], definitions, f"{where}[]")
    for name, subschema in schema.get("properties", {}).items():
        yield f"{where}.{name}"
        yield from _paths(subschema, definitions, f"{where}.{name}")


def _check_metadata(metadata: Mapping[Any, Any]) -> None:
    _refuse_unknown(metadata, _METADATA, "metadata.")
    name = metadata["name"]
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ManifestError("metadata.name: a lowercase RFC 1123 subdomain is expected")
    for field in ("labels", "annotations"):
        mapping = metadata.get(field)
        if mapping is None:
            continue
        texts = isinstance(mapping, dict) and all(
            isinstance(text, str) for pair in mapping.items() for text in pair
        )
        if not texts:
            raise ManifestError(f"metadata.{field}: a map of strings to strings is expected")
    for key, value in (metadata.get("labels") or {}).items():
        if not _VALUE.fullmatch(value):
            raise ManifestError(f"metadata.labels: the value of {key[:80]} is no label value")


def _refuse_unknown(document: Mapping[Any, Any], known_fields: tuple[str, ...], where: str) -> None:
    for field in document:
        if field not in known_fields:
            raise ManifestError(f"{where}{str(field)[:80]}: unknown field")
