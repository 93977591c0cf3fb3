"""GPUs with slices, and what they offer to the kubelet."""

from device_plugin.dp.slices import SliceOffer
from device_plugin.inventory.model import Gpu, MigSlice
from mig import geometry

BOARD = geometry.board("h100-80gb")


def make_gpu(index: int, starts: range, health: str = "Healthy") -> Gpu:
    profile = BOARD.profile("1g.10gb")
    slices = tuple(
        MigSlice(
            f"MIG-{index}-{start}",
            f"GPU-{index}",
            geometry.Instance(profile, start),
            profile.memory_bytes,
            0,
            profile.sm_count,
            f"/run/tessera/slices/MIG-{index}-{start}",
            0,
            (),
        )
        for start in starts
    )
    return Gpu(f"GPU-{index}", index, BOARD, health, slices)


def offer_of(*gpus: Gpu) -> SliceOffer:
    return SliceOffer(tuple(s for gpu in gpus for s in gpu.slices), gpus, "/var/lib/tessera/lib/x")
