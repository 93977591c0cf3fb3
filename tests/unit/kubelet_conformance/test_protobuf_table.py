"""The protobuf reader's table against Kubernetes' generated.proto files, field by field."""

import pytest

from kubelet_conformance.protobuf import _TABLE

# From k8s.io/api/resource/v1, core/v1 and k8s.io/apimachinery (meta/v1, runtime, resource): each
# message's fields with their numbers. "*": repeated, "%": a map by name; types as in the table.
PROTO = """
Unknown: 1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding string, 4 contentType string
TypeMeta: 1 apiVersion string, 2 kind string
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink string,
  5 uid string, 6 resourceVersion string, 7 generation int, 8 creationTimestamp Time,
  11 labels %string, 12 annotations %string, 13 ownerReferences *OwnerReference,
  14 finalizers *string
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string,
  6 controller bool, 7 blockOwnerDeletion bool
Time: 1 seconds int, 2 nanos int
ResourceSlice: 1 metadata ObjectMeta, 2 spec ResourceSliceSpec
ResourceSliceSpec: 1 driver string, 2 pool ResourcePool, 3 nodeName string,
  4 nodeSelector NodeSelector, 5 allNodes bool, 6 devices *Device,
  7 perDeviceNodeSelection bool, 8 sharedCounters *CounterSet
ResourcePool: 1 name string, 2 generation int, 3 resourceSliceCount int
Device: 1 name string, 2 attributes %DeviceAttribute, 3 capacity %DeviceCapacity,
  4 consumesCounters *DeviceCounterConsumption, 5 nodeName string, 6 nodeSelector NodeSelector,
  7 allNodes bool, 8 taints *DeviceTaint, 9 bindsToNode bool, 10 bindingConditions *string,
  11 bindingFailureConditions *string, 12 allowMultipleAllocations bool
DeviceAttribute: 2 int int, 3 bool bool, 4 string string, 5 version string, 7 bools *bool,
  8 strings *string, 9 versions *string
DeviceCapacity: 1 value Quantity, 2 requestPolicy CapacityRequestPolicy
CapacityRequestPolicy: 1 default Quantity, 3 validValues *Quantity,
  4 validRange CapacityRequestPolicyRange
CapacityRequestPolicyRange: 1 min Quantity, 2 max Quantity, 3 step Quantity
CounterSet: 1 name string, 2 counters %Counter
Counter: 1 value Quantity
DeviceCounterConsumption: 1 counterSet string, 2 counters %Counter
DeviceTaint: 1 key string, 2 value string, 3 effect string
NodeSelector: 1 nodeSelectorTerms *NodeSelectorTerm
NodeSelectorTerm: 1 matchExpressions *NodeSelectorRequirement,
  2 matchFields *NodeSelectorRequirement
NodeSelectorRequirement: 1 key string, 2 operator string, 3 values *string
Quantity: 1 string string
"""


def read(text: str) -> dict[str, dict[int, tuple[str, str]]]:
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for line in text.replace(",\n ", ",").strip().splitlines():
        message, _, fields = line.partition(": ")
        found[message] = {}
        for one in fields.split(", "):
            place, name, kind = one.split()
            kind = kind.replace("*", "list:").replace("%", "map:")
            found[message][int(place)] = (name, kind)
    return found


@pytest.mark.parametrize("message", read(PROTO))
def test_a_message_has_the_fields_of_the_published_definition(message: str) -> None:
    assert _TABLE[message] == read(PROTO)[message]


def test_every_message_is_compared() -> None:
    assert _TABLE.keys() == read(PROTO).keys()
