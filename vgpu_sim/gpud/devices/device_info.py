"""Answers HELLO_QUERY: everything a client may know of its MIG device, in one message."""

from vgpu_sim.gpud.devices.attributes import attributes_of
from vgpu_sim.gpud.model import MigInstance, uuid_bytes
from vgpu_sim.hal.messages import ATTRIBUTE_UNKNOWN, DeviceInfo

DRIVER_VERSION = 13000  # 1000 * major + 10 * minor of the CUDA driver API that is served


def device_name(instance: MigInstance) -> str:
    """Return the device's name: the product's and the profile's."""
    return f"{instance.gpu.board.product_name} MIG {instance.profile.name}"


def device_info(
    instance: MigInstance,
    capability: tuple[int, int],
    memory_used_bytes: int,
    context_count: int,
    enforced: bool,
) -> DeviceInfo:
    """Fill the message. ``enforced`` says whether a cgroup holds the slice to its share."""
    info = DeviceInfo()
    info.uuid[:] = uuid_bytes(instance.uuid)
    info.gpu_uuid[:] = uuid_bytes(instance.gpu.uuid)
    info.name = device_name(instance).encode()
    info.profile = instance.profile.name.encode()
    info.board = instance.gpu.board_key.encode()
    info.capability_major, info.capability_minor = capability
    info.is_mig = 1
    info.gpu_index = instance.gpu.index
    info.multiprocessors = instance.profile.sm_count
    info.driver_version = DRIVER_VERSION
    info.memory_bytes = instance.profile.memory_bytes
    info.memory_used_bytes = memory_used_bytes
    info.isolation = int(enforced)
    info.context_count = context_count
    info.instance_start = instance.start
    info.instance_size = instance.profile.size
    known = attributes_of(instance, capability)
    for number in range(len(info.attributes)):
        info.attributes[number] = known.get(number, ATTRIBUTE_UNKNOWN)
    return info
