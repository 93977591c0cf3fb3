"""The chart's package: its page is current, and its annotations name what it has."""

import json
import runpy
from typing import Any

import yaml

from support.programs.helm_chart import CHART, ROOT

PAGE = runpy.run_path(str(ROOT / "docs" / "chart_page.py"))


def test_the_page_is_up_to_date_and_explains_every_value() -> None:
    text = (CHART / "README.md").read_text(encoding="utf-8")
    assert text == PAGE["render"](), "run: python docs/chart_page.py > charts/tessera/README.md"
    assert "|  |\n" not in text, "a value has no description in values.schema.json"


def find_leaves(values: Any, path: str = "") -> set[str]:
    if not isinstance(values, dict) or not values:
        return {path}
    return {leaf for key, one in values.items() for leaf in find_leaves(one, f"{path}.{key}")}


def test_every_value_is_on_the_page() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = (CHART / "README.md").read_text()
    rows = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    for leaf in find_leaves(values):
        names = leaf.removeprefix(".").split(".")
        assert {".".join(names[:n]) for n in range(1, len(names) + 1)} & rows, leaf


def test_annotations_list_the_custom_resources() -> None:
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    listed = {
        (one["kind"], one["version"], one["name"])
        for one in yaml.safe_load(annotations["artifacthub.io/crds"])
    }
    found = set()
    for file in (CHART / "files" / "crds").glob("*.yaml"):
        crd = yaml.safe_load(file.read_text())
        versions = {one["name"] for one in crd["spec"]["versions"]}
        found |= {(crd["spec"]["names"]["kind"], one, crd["metadata"]["name"]) for one in versions}
    assert listed == found
    assert annotations["artifacthub.io/license"] == "Apache-2.0"
    assert all(isinstance(value, str) for value in annotations.values()), "Helm demands strings"
    json.dumps(annotations)
