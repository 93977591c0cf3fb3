"""Converts a pydantic model to the structural OpenAPI schema that a CRD requires.

``$ref`` is inlined, titles are dropped, ``anyOf [X, null]`` becomes X (an absent field), constants
become enums, and a map keeps its value type. A construct without a structural form is an error.
"""

import copy
from typing import Any

from pydantic import BaseModel

_DROPPED = ("title", "$defs", "additionalProperties", "discriminator")


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the structural schema of ``model``.

    Raises:
        ValueError: the model has a construct that a structural schema cannot express.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(schema, schema.get("$defs", {}))


def _convert(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
    if "anyOf" in node:
        options = [o for o in node["anyOf"] if o.get("type") != "null"]
        if len(options) != 1:
            raise ValueError(f"a structural schema cannot express {node}")
        return _convert(
            {**options[0], **{k: v for k, v in node.items() if k != "anyOf"}}, definitions
        )
    kept_fields = {
        k: v for k, v in node.items() if k not in _DROPPED and not _is_empty_default(k, v)
    }
    # an object that two fields share would become an alias in YAML
    result = copy.deepcopy(kept_fields)
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if node.get("type") == "object":
        values = node.get("additionalProperties")
        if isinstance(values, dict):
            result["additionalProperties"] = _convert(values, definitions)
        if "properties" in node:
            result["properties"] = {
                name: _convert(child, definitions) for name, child in node["properties"].items()
            }
        if "minLength" in result:  # pydantic's min_length for a mapping
            result["minProperties"] = result.pop("minLength")
    if node.get("type") == "array" and "items" in node:
        result["items"] = _convert(node["items"], definitions)
    if node.get("type") == "integer":
        result["format"] = "int64"
    return result


def _is_empty_default(key: str, value: Any) -> bool:
    return key == "default" and value is None
