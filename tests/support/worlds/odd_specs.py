"""Specs that a definition's schema accepts but no user would write: limits, extremes, unusual
text.
"""

import random
import re
from typing import Any

_TEXTS = (
    "",
    "a",
    "x" * 63,
    "x" * 253,
    "9" * 400,
    "-1",
    "0",
    "true",
    "null",
    "\u0664g.10gb",
    "3g.40gb",
    "1g.10gb+me",
    "9g.999gb",
    "1c.3g.40gb",
    "whole",
    "h100-80gb",
    "a30",
    "n1",
    "p",
    "gpu",
    "mig-1g.10gb",
    "../../etc",
    "a\nb",
    "\U0001f600",
    "2026-01-01T00:00:00",
    "9999-12-31T23:59:59-23:59",
    "100%",
    "1%",
    "0.0000000000000000001Ti",
    "99999999999Ti",
    "1b",
    "ff",
)
_MOST = 1 << 53  # the largest exact integer in JSON


def odd(schema: dict[str, Any], chance: random.Random) -> Any:
    """Return a value that the schema accepts; ``x-kubernetes-validations`` are ignored."""
    if schema.get("x-kubernetes-int-or-string"):  # rollout.maxUnavailable
        return chance.choice([1, 2, _MOST, "1%", "100%"])
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema["type"]:
        case "object":
            return _odd_object(schema, chance)
        case "array":
            least, most = schema.get("minItems", 0), min(schema.get("maxItems", 3), 70)
            number = chance.choice([least, min(least + 1, most), chance.randint(least, most)])
            return [odd(schema["items"], chance) for _ in range(number)]
        case "string":
            return _odd_text(schema, chance)
        case "integer":
            least, most = schema.get("minimum", -_MOST), schema.get("maximum", _MOST)
            step = schema.get("multipleOf", 1)
            return chance.choice([least, most, chance.randint(least, most)]) // step * step
        case "boolean":
            return chance.random() < 0.5
    raise AssertionError(schema)


def _odd_object(schema: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    if isinstance(values := schema.get("additionalProperties"), dict):
        least = schema.get("minProperties", 0)
        keys = chance.sample(["gpu", "", "x" * 317, "a/b"], least + chance.randint(0, 2))
        return {key: odd(values, chance) for key in keys}
    required = schema.get("required", ())
    return {
        name: odd(part, chance)
        for name, part in schema.get("properties", {}).items()
        if name in required or chance.random() < 0.4
    }


def _odd_text(schema: dict[str, Any], chance: random.Random) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1 << 20)
    pattern = re.compile(schema.get("pattern", ""))
    able = [t for t in _TEXTS if least <= len(t) <= most and pattern.search(t)]
    assert able, schema
    return chance.choice(able)
