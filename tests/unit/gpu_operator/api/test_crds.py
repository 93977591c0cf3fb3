"""The CRD files match the models, and their descriptions are complete."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpu_operator.api.v1alpha1 import crd
from gpu_operator.api.v1alpha1.base import Model, Reason
from mig import geometry

ROOT = Path(__file__).parents[4]
FILES = ROOT / "charts" / "tessera" / "files" / "crds"


def schema(plural: str) -> dict[str, Any]:
    document = yaml.safe_load((FILES / f"{plural}.yaml").read_text())
    found: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_the_crd_files_are_up_to_date(tmp_path: Path) -> None:
    crd.write(tmp_path)
    fresh = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert fresh == {p.name: p.read_text() for p in FILES.iterdir()}, (
        "run: PYTHONPATH=operator python -m gpu_operator.api.v1alpha1.crd charts/tessera/files/crds"
    )


def walk(node: dict[str, Any], path: str = "") -> Any:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from walk(node["items"], f"{path}[]")


@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda k: k.kind)
def test_every_field_is_structural_and_explained(kind: crd.Kind) -> None:
    root = crd.render(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, node in walk(root):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "anyOf", "oneOf", "allOf", "title", "const"} & node.keys(), path
        if path not in ("", ".apiVersion", ".kind", ".metadata") and not path.endswith("[]"):
            assert node.get("description"), f"{kind.kind}{path} is not explained"


@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda k: k.kind)
def test_a_table_with_a_condition_shows_its_reason(kind: crd.Kind) -> None:
    """Even without ``-o wide``: a reader of False or Refused needs the reason."""
    shown = {one.name for one in kind.columns if not one.wide}
    if shown & {"Ready", "Accepted", "Phase"}:
        assert "Reason" in shown


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_the_examples_match_the_schemas(path: Path) -> None:
    plurals = {k.kind: k.plural for k in crd.KINDS}
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] in plurals:
            found = schema(plurals[document["kind"]])
            jsonschema.validate(document, refuse_unknown_fields(found))


def refuse_unknown_fields(node: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with unknown fields refused, as `kubectl apply` does."""
    copy = dict(node)
    if node.get("properties"):
        copy["properties"] = {k: refuse_unknown_fields(v) for k, v in node["properties"].items()}
        copy["additionalProperties"] = False
        if "metadata" in copy["properties"]:
            copy["properties"]["metadata"] = {"type": "object"}
    if isinstance(node.get("items"), dict):
        copy["items"] = refuse_unknown_fields(node["items"])
    return copy


@pytest.mark.parametrize(
    ("plural", "spec"),
    [
        ("gpupools", {"board": "a30"}),
        ("gpupools", {"nodeSelector": {}, "board": "a30"}),
        ("gpupools", {"nodeSelector": {"a": "b"}, "board": "a30", "count": 9}),
        ("gpupools", {"nodeSelector": {"a": "b"}, "board": "a30", "nodeBudget": "8GB"}),
        ("gpupools", {"nodeSelector": {"a": "b"}, "board": "a30", "nodeBudget": "9" * 400}),
        ("gpupools", {"nodeSelector": {"a": "b"}, "board": "a30", "isolation": "strict"}),
        ("miglayouts", {}),
        ("miglayouts", {"instances": [{"profile": "1g.10gb", "count": 0}]}),
        ("miglayouts", {"instances": [{"profile": "1g.10gb"}], "rollout": {"onInUse": "Kill"}}),
        ("miglayouts", {"instances": [{"profil": "1g.10gb"}]}),
        ("miglayouts", {"instances": [{"profile": "1g.10gb", "count": 64}] * 65}),
        ("miglayouts", {"instances": [{"profile": "x" * 64}]}),
        ("gpupolicies", {"resourcePrefix": "UPPER"}),
        ("gpupolicies", {"strategy": "double"}),
    ],
)
def test_malformed_specs_are_refused(plural: str, spec: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"spec": spec}, refuse_unknown_fields(schema(plural)))


@pytest.mark.parametrize(
    "holder",
    [{"namespace": "default", "name": "x/../../y"}, {"namespace": "../kube-system", "name": "x"}],
)
def test_a_holder_must_be_a_name_not_a_path(holder: dict[str, str]) -> None:
    """The operator evicts the pods that an agent names."""
    status = schema("gpus")["properties"]["status"]["properties"]
    holders = status["slices"]["items"]["properties"]["holders"]
    jsonschema.validate([{"namespace": "default", "name": "x-1.y"}], holders)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([holder], holders)


def test_the_description_of_board_lists_the_boards() -> None:
    text = schema("gpupools")["properties"]["spec"]["properties"]["board"]["description"]
    assert [board for board in geometry.BOARDS if board not in text] == []


def test_a_construct_without_structural_form_is_an_error() -> None:
    class Bad(Model):
        either: int | str

    with pytest.raises(ValueError, match="a structural schema cannot express"):
        crd.structural_schema(Bad)


def test_every_reason_is_documented() -> None:
    text = (ROOT / "docs" / "operator-reference.md").read_text()
    assert [reason.value for reason in Reason if f"`{reason.value}`" not in text] == []
