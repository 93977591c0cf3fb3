"""Sharing equal parts of models does not change their values."""

from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus
from gpu_operator.api.v1alpha1.resource import Resource, parse
from gpu_operator.engine.store import Store
from support.worlds.gpu_world import gpu, mig_slice

WANT = ("1g.10gb@0", "3g.40gb@4")


def read(name: str) -> Resource[GPUSpec, GPUStatus]:
    made = gpu(want=WANT, have=[mig_slice(place, "team/a") for place in WANT])
    document = {
        "kind": "GPU",
        "metadata": {"name": name},
        "spec": made.spec.model_dump(mode="json", by_alias=True),
        "status": made.status.model_dump(mode="json", by_alias=True),
    }
    found = parse(document, GPUSpec, GPUStatus)
    assert isinstance(found, Resource)
    assert (found.spec, found.status) == (made.spec, made.status)
    return found


def test_equal_parts_are_shared_and_copies_are_independent() -> None:
    one, other = read("a"), read("b")
    slices = one.status.slices[0], other.status.slices[0]
    assert slices[0].resource is slices[1].resource
    assert slices[0].__pydantic_fields_set__ is slices[1].__pydantic_fields_set__
    before = set(one.spec.model_fields_set)
    changed = one.spec.model_copy(update={"layout": "l"})
    assert "layout" in changed.model_fields_set
    assert one.spec.model_fields_set == other.spec.model_fields_set == before
    assert other.spec.layout is None


def test_only_a_document_s_identity_is_kept() -> None:
    store = Store()
    metadata = {"name": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}}
    store.put("Node", {"metadata": {**metadata, "managedFields": ["long"]}, "status": {}})
    assert store.document("Node", "n") == {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}
    }
    assert store.world().nodes["n"].labels == {"a": "b"}
