"""Models of objects share their equal parts, and stay what they were."""

import sys
from typing import Any

from pydantic import ConfigDict, create_model

from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus, Holder
from gpu_operator.api.v1alpha1.interning import intern_model

_SPEC: dict[str, Any] = {
    "index": 0,
    "board": "h100-80gb",
    "pool": "h100",
    "instances": [{"profile": "1g.10gb", "start": start} for start in range(7)],
}
_SLICE: dict[str, Any] = {
    "profile": "1g.10gb",
    "start": 0,
    "state": "Active",
    "resource": "gpu.tessera.dev/mig-1g.10gb",
    "memoryBytes": 10468982784,
    "multiprocessors": 16,
}


def _spec(number: int) -> GPUSpec:
    return GPUSpec.model_validate({**_SPEC, "nodeName": f"node-{number}", "uuid": f"GPU-{number}"})


def _status(number: int) -> GPUStatus:
    one = {**_SLICE, "uuid": f"MIG-{number}", "memoryUsedBytes": 10**9 + number}
    return GPUStatus.model_validate({"slices": [one]})


def test_gpus_of_one_layout_share_their_instances() -> None:
    one, other = intern_model(_spec(1)), intern_model(_spec(2))
    assert one.instances is other.instances
    assert one.uuid != other.uuid


def test_slices_share_numbers_and_texts_but_not_what_differs() -> None:
    one, other = (intern_model(_status(number)).slices[0] for number in (1, 2))
    assert one.memory_bytes is other.memory_bytes
    assert one.resource is other.resource
    assert (one.uuid, other.uuid) == ("MIG-1", "MIG-2")
    assert other.memory_used_bytes - one.memory_used_bytes == 1


def test_an_interned_model_equals_the_original_and_can_be_changed() -> None:
    plain, interned = _status(3), intern_model(_status(3))
    assert interned == plain
    assert hash(interned.slices[0]) == hash(plain.slices[0])
    assert interned.model_dump(exclude_unset=True) == plain.model_dump(exclude_unset=True)
    changed = interned.model_copy(update={"product": "other"})
    assert (changed.product, interned.product) == ("other", "")
    assert changed.slices == plain.slices


def test_wide_models_take_less_memory_however_many_exist() -> None:
    fields: dict[str, Any] = {f"field_{number}": (int, number) for number in range(14)}
    wide = create_model("Wide", __config__=ConfigDict(frozen=True), **fields)
    plain = [wide.model_validate({}) for _ in range(40)]
    interned = intern_model(wide.model_validate({}))
    assert interned == plain[0]
    assert sys.getsizeof(interned.__dict__) < 0.7 * sys.getsizeof(plain[0].__dict__)


def test_holders_take_less_memory() -> None:
    plain = [Holder(namespace="ml", name=f"p-{number}", uid=f"u-{number}") for number in range(50)]
    before = sys.getsizeof(plain[-1].__dict__)
    assert sys.getsizeof([intern_model(one) for one in plain][-1].__dict__) < 0.7 * before
