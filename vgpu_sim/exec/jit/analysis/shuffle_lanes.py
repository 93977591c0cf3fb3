"""The lane from which each lane reads in SHFL."""

from vgpu_sim.isa import ShuffleMode


def shuffle_source(mode: ShuffleMode | None, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the lane whose value SHFL returns to ``lane``, and whether the requested lane is in
    range.

    If the requested lane is out of range, ``lane`` gets its own value.
    """
    distance, clamp, segment = b & 31, c & 31, c >> 8 & 31
    low = lane & segment
    last = low | (clamp & ~segment)
    source = {
        ShuffleMode.UP: lane - distance,
        ShuffleMode.DOWN: lane + distance,
        ShuffleMode.BFLY: lane ^ distance,
    }.get(mode or ShuffleMode.UP, low | (distance & ~segment))
    within = source >= last if mode is ShuffleMode.UP else source <= last
    return (source, True) if within else (lane, False)
