"""Answers HELLO_QUERY: all properties of a device that a client can query, in one message."""

from vgpu_sim.gpud.devices.attributes import Attribute, attributes_of
from vgpu_sim.gpud.model import MigInstance, uuid_bytes
from vgpu_sim.hal.messages import (
    ATTRIBUTE_UNKNOWN,
    CI_ATTRIBUTE,
    CLOCK_ATTRIBUTE,
    GI_ATTRIBUTE,
    DeviceInfo,
)

DRIVER_VERSION = 13000  # the CUDA driver API version that is served, as 1000 * major + 10 * minor


def device_name(instance: MigInstance) -> str:
    """Return the name of an instance's device: the product's name, followed by the profile for a
    MIG device.
    """
    if instance.profile.is_whole:
        return instance.gpu.board.product_name
    return f"{instance.gpu.board.product_name} MIG {instance.device_profile}"


def device_info(
    instance: MigInstance,
    capability: tuple[int, int],
    memory_used_bytes: int,
    context_count: int,
    enforced: bool,
    multiprocessors: int,
    *,
    modelled: bool = False,
) -> DeviceInfo:
    """Build the message that describes an instance to a client. ``enforced`` states that a control
    group limits the slice to its share.

    ``multiprocessors`` is how many of the instance's multiprocessors this client may use. It
    becomes the value of the device attribute for the number of multiprocessors, as for an MPS
    client. Everything else describes the whole instance. ``modelled`` is set if CUDA events
    measure the board's modelled time.
    """
    info = DeviceInfo()
    info.uuid[:] = uuid_bytes(instance.uuid)
    info.gpu_uuid[:] = uuid_bytes(instance.gpu.uuid)
    info.name = device_name(instance).encode()
    info.profile = instance.device_profile.encode()
    info.board = instance.gpu.board_key.encode()
    info.capability_major, info.capability_minor = capability
    info.is_mig = int(not instance.profile.is_whole)
    info.gpu_index = instance.gpu.index
    info.multiprocessors = instance.sm_count
    info.driver_version = DRIVER_VERSION
    info.memory_bytes = instance.profile.memory_bytes
    info.memory_used_bytes = memory_used_bytes
    info.isolation = int(enforced)
    info.context_count = context_count
    info.instance_start = instance.start
    info.instance_size = instance.profile.size
    attributes = attributes_of(instance, capability)
    for number in range(len(info.attributes)):
        info.attributes[number] = attributes.get(number, ATTRIBUTE_UNKNOWN)
    info.attributes[Attribute.MULTIPROCESSOR_COUNT] = multiprocessors
    info.attributes[CLOCK_ATTRIBUTE] = int(modelled)
    if not instance.profile.is_whole:
        info.attributes[GI_ATTRIBUTE] = instance.gi_id
        info.attributes[CI_ATTRIBUTE] = instance.ci_id
    return info
