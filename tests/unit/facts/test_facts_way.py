"""The facts on their way from a pool to programs: written once, kept at every hop, and read."""

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from device_plugin.agent.desired_state import current_configuration, desired_from_objects
from device_plugin.inventory import model
from device_plugin.kube import gpu_object
from facts.document import DECLARED, DEFAULT_FACTS, GpuFacts
from gpu_operator.api.v1alpha1.gpu import GPUSpec
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec
from gpu_operator.api.v1alpha1.schema import structural_schema
from gpu_operator.render import gpu as gpu_render
from support.worlds.gpu_world import pool
from support.worlds.scraped_node import NODE
from vgpu_sim.gpud.admin import parameters
from vgpu_sim.gpud.devices import journal
from vgpu_sim.gpud.devices.journal import NodeState
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.documents import DocumentError
from vgpu_sim.system.admin_socket.errors import InvalidRequest

ROOT = Path(__file__).parents[3]
ALL_SET: dict[str, Any] = {"topology": "dgx-h100"}
"""Fields of a pool's spec that set every fact to a value other than its default."""
UUID = gpu_render.uuid_of("n", 0)
# The fields of a GPU in the last version without the document; its readers refuse all others.
BEFORE_IN_A_REQUEST = {"uuid", "index", "board", "topology"}
BEFORE_IN_A_SPEC = {
    *("nodeName", "index", "board", "uuid", "pool", "layout", "instances", "migMode"),
    *("migStrategy", "allocation", "allowMultipleAllocations", "nodeBudget", "isolation"),
    *("topology", "faults", "sharing"),
}
BEFORE_IN_THE_INVENTORY = {
    *("uuid", "index", "board", "product", "memory_bytes", "multiprocessors", "capability"),
    *("health", "instances", "mig_enabled", "pci_bus_id", "telemetry", "xids", "ecc", "faults"),
    "topology",
}


def spec_of(wanted: GPUPoolSpec) -> dict[str, Any]:
    """Return the spec of a pool's GPU as the operator writes it."""
    spec = GPUSpec(
        node_name="n", index=0, board=wanted.board, uuid=UUID, pool="p", **wanted.facts.to_json()
    )
    written: dict[str, Any] = json.loads(json.dumps(gpu_render.gpu(spec, "uid")["spec"]))
    return written


def read(spec: dict[str, Any]) -> gpu_object.GpuObject:
    """Read a GPU object as the node agent does."""
    return gpu_object.read({"metadata": {"name": "n-gpu-0", "generation": 1}, "spec": spec})


def requested_rows(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs that the agent requests from gpud."""
    nothing = model.Inventory("1", "/lib", 0, 0, True, "", (), ())
    rows: list[dict[str, Any]] = json.loads(
        json.dumps(desired_from_objects([read(spec)], 0).configuration(nothing))
    )
    return rows


def reported_inventory(facts: GpuFacts) -> dict[str, Any]:
    """Return gpud's inventory of one GPU with these facts."""
    gpu = replace(NODE.gpus[0], instances=(), facts=facts)
    document: dict[str, Any] = json.loads(json.dumps(replace(NODE, gpus=(gpu,)).to_json()))
    return document


def pool_spec(**fields: Any) -> GPUPoolSpec:
    spec = pool(**fields).spec
    assert isinstance(spec, GPUPoolSpec)
    return spec


def test_a_pool_can_set_every_fact() -> None:
    assert pool_spec().facts == DEFAULT_FACTS
    assert pool_spec(**ALL_SET).facts.to_json().keys() == DECLARED.keys()


@pytest.mark.parametrize("fields", [{}, ALL_SET])
def test_no_fact_is_lost_between_a_pool_and_gpuds_inventory(fields: dict[str, Any]) -> None:
    facts = pool_spec(**fields).facts
    rows = requested_rows(spec_of(pool_spec(**fields)))
    (gpu,) = parameters.gpus(rows)
    assert gpu.facts == facts
    again = journal.decode(json.loads(json.dumps(journal.encode(NodeState((gpu,))))))
    assert again.gpus == (gpu,)
    document = reported_inventory(gpu.facts)
    assert admin.Inventory.from_json(document).gpus[0].facts == facts
    seen = model.parse(document)
    assert seen.gpus[0].facts == facts
    assert current_configuration(seen)[0] | {"uuid": UUID} == rows[0]


def test_every_fact_is_read_where_programs_can_see_it() -> None:
    found = set()
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "vgpu_sim").rglob("*.py"))
    for source in (one for one in sources if ".facts." in one):
        for one in ast.walk(ast.parse(source)):
            of_facts = isinstance(one, ast.Attribute) and isinstance(one.value, ast.Attribute)
            if of_facts and one.value.attr == "facts":
                found.add(one.attr)
    assert DECLARED.keys() <= found


def test_documents_of_the_previous_version_are_read() -> None:
    spec = spec_of(pool_spec()) | {"topology": "flat"}
    assert read(spec).problem == ""
    assert parameters.gpus(requested_rows(spec))[0].facts == DEFAULT_FACTS
    placed = spec | {"topology": "hgx-4"}
    (row,) = requested_rows(placed)
    assert row == {"uuid": UUID, "index": 0, "board": "h100-80gb", "topology": "hgx-4"}
    for entry in (row, row | {"topology": "flat"}, {k: row[k] for k in row if k != "topology"}):
        facts = GpuFacts(entry.get("topology", "flat"))
        assert parameters.gpus([entry])[0].facts == facts
        document = {"version": 1, "budget_bytes": 0, "gpus": [entry], "instances": []}
        assert journal.decode(document).gpus[0].facts == facts
    inventory = reported_inventory(DEFAULT_FACTS)
    inventory["gpus"][0]["topology"] = "hgx-4"
    assert model.parse(inventory).gpus[0].facts == GpuFacts("hgx-4")


def test_the_previous_version_reads_documents_until_a_pool_sets_a_new_fact() -> None:
    for facts, fields in ((DEFAULT_FACTS, {}), (GpuFacts("hgx-4"), {"topology": "hgx-4"})):
        spec = spec_of(pool_spec(**fields))
        assert spec.keys() <= BEFORE_IN_A_SPEC
        (row,) = requested_rows(spec)
        assert row.keys() <= BEFORE_IN_A_REQUEST
        (kept,) = journal.encode(NodeState(tuple(parameters.gpus([row]))))["gpus"]
        assert kept.keys() <= BEFORE_IN_A_REQUEST
        assert reported_inventory(facts)["gpus"][0].keys() == BEFORE_IN_THE_INVENTORY


def test_the_api_server_fills_in_no_fact() -> None:
    """An agent of the previous version refuses a GPU with a field that it does not know."""
    properties = structural_schema(GPUSpec)["properties"]
    for name in DECLARED:
        assert "default" not in properties[name]
        assert {"description", "type"} <= properties[name].keys()
    assert properties["topology"]["maxLength"] == 1024


def test_a_fact_of_a_later_version_is_refused_by_name_at_every_hop() -> None:
    spec = spec_of(pool_spec())
    assert read(spec | {"tomorrow": "x"}).problem.startswith("spec.tomorrow: ")
    (row,) = requested_rows(spec)
    with pytest.raises(InvalidRequest, match="tomorrow"):
        parameters.gpus([row | {"tomorrow": "x"}])
    document = {"version": 1, "budget_bytes": 0, "gpus": [row | {"tomorrow": 1}], "instances": []}
    with pytest.raises(ValueError, match="tomorrow"):
        journal.decode(document)
    for name in ("tomorrow", "facts"):
        inventory = reported_inventory(DEFAULT_FACTS)
        inventory["gpus"][0][name] = {}
        with pytest.raises(DocumentError, match=name):
            admin.Inventory.from_json(inventory)


@pytest.mark.parametrize("value", [1, None, "", "x" * 1025, "flat\n"])
def test_an_invalid_fact_is_refused_by_name_at_every_hop(value: object) -> None:
    spec = spec_of(pool_spec()) | {"topology": value}
    if value != "flat\n":  # gpud also checks the characters, which the schema does not
        assert read(spec).problem.startswith("spec.topology: ")
    row = {"uuid": UUID, "index": 0, "board": "h100-80gb", "topology": value}
    with pytest.raises(InvalidRequest, match=r"^topology "):
        parameters.gpus([row])
    with pytest.raises(ValueError, match=r"^topology "):
        journal.decode({"version": 1, "budget_bytes": 0, "gpus": [row], "instances": []})
    inventory = reported_inventory(DEFAULT_FACTS)
    inventory["gpus"][0]["topology"] = value
    with pytest.raises(DocumentError, match=r"^inventory\.gpus\[0\]\.topology "):
        admin.Inventory.from_json(inventory)
