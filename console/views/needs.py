"""The kinds of objects on which each answer depends: without one of them there is no answer."""

from typing import Final

from console.model.fabric import KINDS as FABRIC_KINDS

FLEET: Final = ("GPU", "Node", "GPUPool")
NODE: Final = ("GPU", "Node")
GPU: Final = ("GPU",)
PENDING: Final = ("Pod", "GPUPolicy")  # the policy has the prefix of the resources
EXPLANATION: Final = ("Pod", "GPU", "Node", "GPUPool", "MIGLayout")
POLICY: Final = ("GPUPolicy",)  # for resources with another prefix, and for what would free one
CLAIMS: Final = ("ResourceClaim", "DeviceClass")
LAYOUT: Final = ("GPU", "Node", "GPUPool", "MIGLayout", "GPUPolicy")
INFERENCE: Final = ("Pod", "GPU")
RDMA: Final = ("Pod", *FABRIC_KINDS)
FAULTS: Final = ("GPUFault",)
EVENTS: Final = ("Event", "GPUFault")
TOPOLOGY: Final = ("GPU", "GPUPool")
