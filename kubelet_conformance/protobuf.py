"""Decodes ResourceSlices in Kubernetes' protobuf encoding, which Go's clients always send.

It has a table of field numbers (``generated.proto`` of k8s.io/api/resource/v1 and of
apimachinery) and a reader of the wire format. A field that is not in the table is an error that
names it: if it were dropped, a driver would read back less than it wrote, and write forever.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

MAGIC: Final = b"k8s\0"
CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_VARINT, _LENGTH = 0, 2
_MAP = "map:"
_LIST = "list:"
_SELECTOR = "list:NodeSelectorTerm"

_Fields = Mapping[int, tuple[str, str]]
_TABLE: Mapping[str, _Fields] = {
    "Unknown": {
        1: ("typeMeta", "TypeMeta"),
        2: ("raw", "bytes"),
        3: ("contentEncoding", "string"),
        4: ("contentType", "string"),
    },
    "TypeMeta": {1: ("apiVersion", "string"), 2: ("kind", "string")},
    "ObjectMeta": {
        1: ("name", "string"),
        2: ("generateName", "string"),
        3: ("namespace", "string"),
        4: ("selfLink", "string"),
        5: ("uid", "string"),
        6: ("resourceVersion", "string"),
        7: ("generation", "int"),
        8: ("creationTimestamp", "Time"),
        11: ("labels", "map:string"),
        12: ("annotations", "map:string"),
        13: ("ownerReferences", "list:OwnerReference"),
        14: ("finalizers", "list:string"),
    },
    "OwnerReference": {
        1: ("kind", "string"),
        3: ("name", "string"),
        4: ("uid", "string"),
        5: ("apiVersion", "string"),
        6: ("controller", "bool"),
        7: ("blockOwnerDeletion", "bool"),
    },
    "Time": {1: ("seconds", "int"), 2: ("nanos", "int")},
    "ResourceSlice": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ResourceSliceSpec")},
    "ResourceSliceSpec": {
        1: ("driver", "string"),
        2: ("pool", "ResourcePool"),
        3: ("nodeName", "string"),
        4: ("nodeSelector", "NodeSelector"),
        5: ("allNodes", "bool"),
        6: ("devices", "list:Device"),
        7: ("perDeviceNodeSelection", "bool"),
        8: ("sharedCounters", "list:CounterSet"),
    },
    "ResourcePool": {
        1: ("name", "string"),
        2: ("generation", "int"),
        3: ("resourceSliceCount", "int"),
    },
    "Device": {
        1: ("name", "string"),
        2: ("attributes", "map:DeviceAttribute"),
        3: ("capacity", "map:DeviceCapacity"),
        4: ("consumesCounters", "list:DeviceCounterConsumption"),
        5: ("nodeName", "string"),
        6: ("nodeSelector", "NodeSelector"),
        7: ("allNodes", "bool"),
        8: ("taints", "list:DeviceTaint"),
        9: ("bindsToNode", "bool"),
        10: ("bindingConditions", "list:string"),
        11: ("bindingFailureConditions", "list:string"),
        12: ("allowMultipleAllocations", "bool"),
    },
    "DeviceAttribute": {
        2: ("int", "int"),
        3: ("bool", "bool"),
        4: ("string", "string"),
        5: ("version", "string"),
        7: ("bools", "list:bool"),
        8: ("strings", "list:string"),
        9: ("versions", "list:string"),
    },
    "DeviceCapacity": {1: ("value", "Quantity"), 2: ("requestPolicy", "CapacityRequestPolicy")},
    "CapacityRequestPolicy": {
        1: ("default", "Quantity"),
        3: ("validValues", "list:Quantity"),
        4: ("validRange", "CapacityRequestPolicyRange"),
    },
    "CapacityRequestPolicyRange": {
        1: ("min", "Quantity"),
        2: ("max", "Quantity"),
        3: ("step", "Quantity"),
    },
    "CounterSet": {1: ("name", "string"), 2: ("counters", "map:Counter")},
    "Counter": {1: ("value", "Quantity")},
    "DeviceCounterConsumption": {1: ("counterSet", "string"), 2: ("counters", "map:Counter")},
    "DeviceTaint": {1: ("key", "string"), 2: ("value", "string"), 3: ("effect", "string")},
    "NodeSelector": {1: ("nodeSelectorTerms", _SELECTOR)},
    "NodeSelectorTerm": {
        1: ("matchExpressions", "list:NodeSelectorRequirement"),
        2: ("matchFields", "list:NodeSelectorRequirement"),
    },
    "NodeSelectorRequirement": {
        1: ("key", "string"),
        2: ("operator", "string"),
        3: ("values", "list:string"),
    },
    "Quantity": {1: ("string", "string")},
}
_EMPTY_MEANS_NONE = {
    "metadata": ("namespace", "selfLink", "uid", "resourceVersion", "generateName")
}


class NotReadable(ValueError):
    """A body cannot be decoded. The message states which part of the body is invalid or not
    supported.
    """


def decode(body: bytes) -> dict[str, Any]:
    """Decode the object in a request's body; return the object in its JSON form.

    Raises NotReadable.
    """
    if not body.startswith(MAGIC):
        raise NotReadable(f"a body of {CONTENT_TYPE} must begin with {MAGIC!r}")
    outer = _message("Unknown", body[len(MAGIC) :])
    kind = outer.get("typeMeta", {}).get("kind", "")
    if kind != "ResourceSlice":
        raise NotReadable(f"a {kind or 'thing without a kind'} in {CONTENT_TYPE} is not supported")
    manifest = {**outer["typeMeta"], **_message(kind, outer.get("raw", b""))}
    for part, names in _EMPTY_MEANS_NONE.items():
        for name in names:
            if not manifest.get(part, {}).get(name, "-"):
                del manifest[part][name]
    manifest["metadata"].pop("creationTimestamp", None)  # set by the server
    return manifest


def _message(kind: str, text: bytes) -> dict[str, Any]:
    fields, field_values = _TABLE[kind], dict[str, Any]()
    for number, value in _parts(kind, text):
        if number not in fields:
            raise NotReadable(f"field {number} of {kind} is not supported")
        name, of = fields[number]
        if of.startswith(_LIST):
            field_values.setdefault(name, []).append(_value(of.removeprefix(_LIST), value))
        elif of.startswith(_MAP):
            entry = dict(_parts(kind, _bytes(value)))
            key = _bytes(entry.get(1, b"")).decode()
            field_values.setdefault(name, {})[key] = _value(
                of.removeprefix(_MAP), entry.get(2, b"")
            )
        else:
            field_values[name] = _value(of, value)
    return field_values


def _value(of: str, value: int | bytes) -> Any:
    match of:
        case "int":
            return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value
        case "bool":
            return bool(value)
        case "string":
            return _bytes(value).decode()
        case "bytes":
            return _bytes(value)
        case "Quantity":
            return _message("Quantity", _bytes(value)).get("string", "0")
        case _:
            return _message(of, _bytes(value))


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise NotReadable("unexpected number instead of a text or a message")
    return value


def _parts(kind: str, text: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: number and value."""
    at = 0
    while at < len(text):
        tag, at = _varint(kind, text, at)
        value, at = _varint(kind, text, at)
        if tag & 7 == _VARINT:
            yield tag >> 3, value
        elif tag & 7 == _LENGTH and at + value <= len(text):
            yield tag >> 3, text[at : at + value]
            at += value
        else:
            raise NotReadable(
                f"field {tag >> 3} of {kind} is truncated or not supported:"
                f" wire type {tag & 7} at byte {at}"
            )


def _varint(kind: str, text: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(text):
            break
        value |= (text[at + place] & 0x7F) << 7 * place
        if text[at + place] < 0x80:
            return value & ((1 << 64) - 1), at + place + 1
    raise NotReadable(f"{kind} ends in the middle of a number")
