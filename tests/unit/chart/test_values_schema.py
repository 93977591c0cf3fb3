"""The chart's values: the schema accepts what the documentation and the CRDs specify."""

import json
import re
from typing import Any

import pytest
import yaml

from support.programs.helm_chart import CHART


def theirs() -> list[tuple[str, bool]]:
    """Return every value of NVIDIA's charts on the documentation page, and whether it is "the
    same".
    """
    page = (CHART.parents[1] / "docs" / "compatibility.md").read_text()
    table = page.partition("## Chart values\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|$", table, re.MULTILINE)
    return [
        (one, says == "the same") for names, says in rows for one in re.findall("`(.*?)`", names)
    ]


@pytest.mark.parametrize(("value", "same"), [one for one in theirs() if one[0] != "sharing"])
def test_values_of_nvidias_charts_match_the_documentation(value: str, same: bool) -> None:
    def is_known(schema: dict[str, Any], path: list[str]) -> bool:
        if not path or "properties" not in schema:
            return True
        return path[0] in schema["properties"] and is_known(schema["properties"][path[0]], path[1:])

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert is_known(schema, value.split(".")) is same


def test_unknown_values_are_refused_at_every_level() -> None:
    """The schema rejects unknown values at every level."""

    def open_ones(schema: dict[str, Any], path: str) -> list[str]:
        inner = [
            found
            for name, one in schema.get("properties", {}).items()
            for found in open_ones(one, f"{path}.{name}")
        ]
        is_open = "properties" in schema and schema.get("additionalProperties") is not False
        return [path, *inner] if is_open else inner

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert open_ones(schema, "") == []


def test_helm_refuses_the_same_sharing_as_the_api_server() -> None:
    """Otherwise the error would appear only in a log of the operator."""

    def bare(schema: dict[str, Any]) -> dict[str, Any]:
        kept = {
            key: value
            for key, value in schema.items()
            if key not in ("description", "default", "format", "additionalProperties")
        }
        if "items" in kept:
            kept["items"] = bare(kept["items"])
        if "properties" in kept:
            kept["properties"] = {name: bare(one) for name, one in kept["properties"].items()}
        return kept

    crd = yaml.safe_load((CHART / "files" / "crds" / "gpupolicies.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    values = json.loads((CHART / "values.schema.json").read_text())
    for kind in ("timeSlicing", "mps"):
        admitted = spec["properties"]["sharing"]["properties"][kind]
        assert bare(values["definitions"]["sharing"]) == bare(admitted)
