"""ResourceSlices in Kubernetes' protobuf: decoded to their JSON form, or refused by name."""

from typing import Any

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


def spec_of(raw: bytes) -> Any:
    """Return a decoded slice's spec; its creation time, which the server sets, must be dropped."""
    meta = field(1, field(1, "n") + field(8, field(1, 12)))
    found = protobuf.decode(body(meta + field(2, raw)))
    assert found["metadata"] == {"name": "n"}
    return found["spec"]


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (0, 0),
        (0x7F, 127),
        (0x80, 128),
        (0x3FFF, 16383),
        (0x4000, 16384),
        ((1 << 63) - 1, (1 << 63) - 1),
        (1 << 63, -(1 << 63)),
        ((1 << 64) - 1, -1),
    ],
)
def test_integers_are_of_64_bits_with_a_sign(encoded: int, value: int) -> None:
    assert spec_of(field(2, field(2, encoded)))["pool"] == {"generation": value}


def test_a_number_of_ten_bytes_keeps_64_bits() -> None:
    ten = b"\xff" * 9 + b"\x7f"
    assert spec_of(field(2, number(2 << 3) + ten))["pool"] == {"generation": -1}


def test_lists_maps_and_empty_values_are_kept_as_they_are() -> None:
    attributes = [("b", field(3, 0)), ("c", field(3, 1)), ("l", field(7, 1) + field(7, 0))]
    device = b"".join(field(2, field(1, name) + field(2, one)) for name, one in attributes)
    device += field(2, field(2, field(4, "")))  # an empty key with an empty text
    device += field(3, field(1, "none"))  # a capacity without a value
    device += field(3, field(1, "q") + field(2, field(1, b"")))
    device += field(10, "first") + field(10, "second") + field(12, 0)
    assert spec_of(field(6, device) + field(6, b"") + field(5, 1)) == {
        "allNodes": True,
        "devices": [
            {
                "attributes": {
                    "b": {"bool": False},
                    "c": {"bool": True},
                    "l": {"bools": [True, False]},
                    "": {"string": ""},
                },
                "capacity": {"none": {}, "q": {"value": "0"}},
                "bindingConditions": ["first", "second"],
                "allowMultipleAllocations": False,
            },
            {},
        ],
    }


def test_empty_names_of_the_server_s_are_left_out_and_others_kept() -> None:
    names = {1: "", 2: "", 3: "", 4: "", 5: "", 6: ""}
    raw = b"".join(field(place, text) for place, text in names.items())
    assert protobuf.decode(body(field(1, raw)))["metadata"] == {"name": ""}
    raw = b"".join(field(place, f"t{place}") for place in names)
    assert protobuf.decode(body(field(1, raw)))["metadata"] == {
        "name": "t1",
        "generateName": "t2",
        "namespace": "t3",
        "selfLink": "t4",
        "uid": "t5",
        "resourceVersion": "t6",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{}", "must begin with"),
        (body(b"", "Pod"), "a Pod in"),
        (body(field(2, field(99, "x"))), "field 99 of ResourceSliceSpec is not supported"),
        (body(field(2, field(2, 7))), "unexpected number"),
        (body(field(2, "x")[:-1] + b""), "wire type 2|in the middle"),
        (b"k8s" + body(b"")[4:], "must begin with"),
        (MAGIC, "a thing without a kind in"),
        (MAGIC + field(1, field(1, "v1")), "a thing without a kind in"),
        (body(field(2, field(1, "x") + field(1, 7))), "unexpected number"),
        (body(field(2, field(6, field(2, 7)))), "unexpected number"),
        (body(field(2, field(6, field(2, field(1, 7))))), "unexpected number"),
        (body(field(2, field(2, field(2, 1)[:-1]))), "ResourcePool ends in the middle"),
        (
            MAGIC + number(1 << 3 | 2) + number(1),
            "field 1 of Unknown is truncated or not supported: wire type 2 at byte 2",
        ),
        (MAGIC + b"\x80", "in the middle of a number"),
        (MAGIC + b"\x80" * 11, "in the middle of a number"),
        (MAGIC + b"\x0d\x00\x00\x00\x00", "wire type 5"),
    ],
)
def test_an_unreadable_field_is_named(text: bytes, message: str) -> None:
    with pytest.raises(NotReadable, match=message):
        protobuf.decode(text)
