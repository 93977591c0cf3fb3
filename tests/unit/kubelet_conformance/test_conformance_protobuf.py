"""ResourceSlices in Kubernetes' protobuf: read as JSON has them, or refused by name."""

import pytest

from kubelet_conformance import protobuf
from kubelet_conformance.protobuf import MAGIC, NotReadable


def number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(place: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number(place << 3) + number(value)
    text = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(text)) + text


def body(raw: bytes, kind: str = "ResourceSlice") -> bytes:
    meta = field(1, "resource.k8s.io/v1") + field(2, kind)
    return MAGIC + field(1, meta) + field(2, raw)


def test_a_slice_is_read_as_json_has_it() -> None:
    attribute = field(1, "example.com/memory") + field(2, field(2, (1 << 64) - 5))
    capacity = field(1, "memory") + field(2, field(1, field(1, "40Gi")))
    counter = field(1, "slices") + field(2, field(1, field(1, "7")))
    device = field(1, "gpu-0") + field(2, attribute) + field(3, capacity)
    device += field(4, field(1, "set") + field(2, counter))
    pool = field(1, "node") + field(2, 3) + field(3, 1)
    spec = field(1, "gpu.example.com") + field(2, pool) + field(3, "node") + field(6, device)
    metadata = field(2, "gpu-") + field(5, "") + field(8, field(1, 12))
    metadata += field(13, field(1, "Node") + field(5, "v1") + field(6, 1))
    assert protobuf.decode(body(field(1, metadata) + field(2, spec))) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "generateName": "gpu-",
            "ownerReferences": [{"kind": "Node", "apiVersion": "v1", "controller": True}],
        },
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": "node", "generation": 3, "resourceSliceCount": 1},
            "nodeName": "node",
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"example.com/memory": {"int": -5}},
                    "capacity": {"memory": {"value": "40Gi"}},
                    "consumesCounters": [
                        {"counterSet": "set", "counters": {"slices": {"value": "7"}}}
                    ],
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{}", "begins with"),
        (body(b"", "Pod"), "a Pod in"),
        (body(field(2, field(99, "x"))), "field 99 of ResourceSliceSpec is not supported"),
        (body(field(2, field(2, 7))), "a number where"),
        (body(field(2, "x")[:-1] + b""), "wire type 2|in the middle"),
        (MAGIC + b"\x80", "in the middle of a number"),
        (MAGIC + b"\x80" * 11, "in the middle of a number"),
        (MAGIC + b"\x0d\x00\x00\x00\x00", "wire type 5"),
    ],
)
def test_what_cannot_be_read_is_named(text: bytes, message: str) -> None:
    with pytest.raises(NotReadable, match=message):
        protobuf.decode(text)
