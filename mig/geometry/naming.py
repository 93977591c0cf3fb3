"""Names of profiles, which are derived from sizes in bytes and never stored.

The memory figure in a name is the instance's share of the board rounded up to eighths, times the
board's size in whole GiB, rounded half up. So two boards of one product can have different names
("1g.23gb" and "1g.24gb" on GB200), and a name promises more than the instance holds ("1g.18gb"
is 16.00 GiB). The rule is that of go-nvlib's ``getMigMemorySizeGB``.
"""

import re
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20

WHOLE = "whole"
"""The profile name of a GPU that MIG does not divide."""
WHOLE_RESOURCE = "gpu"
"""The Kubernetes resource of a whole GPU without its domain, as NVIDIA's device plugin names it."""

_EIGHTHS = 8
_NAME = re.compile(
    r"(?:(?P<compute>[1-9])c\.)?(?P<gpu>[1-9])g\.(?P<gb>0|[1-9][0-9]{0,3})gb"
    r"(?P<attribute>\+[a-z]+(?:\.[a-z]+)*(?:,[a-z]+(?:\.[a-z]+)*)*|-[a-z]+(?:,[a-z]+)*)?",
    re.ASCII,
)


def memory_gb(instance_bytes: int, board_bytes: int) -> int:
    """Return the number before "gb" in a profile's name.

    ``instance_bytes`` is the instance's part of the board's memory. Raises ValueError unless 0 <
    instance_bytes <= board_bytes.
    """
    if not 0 < instance_bytes <= board_bytes:
        raise ValueError(
            f"an instance must have 1 to {board_bytes} bytes of memory, not {instance_bytes}"
        )
    eighths = -(-_EIGHTHS * instance_bytes // board_bytes)
    board_gib = -(-board_bytes // GIB)
    return (2 * eighths * board_gib + _EIGHTHS) // (2 * _EIGHTHS)  # integer "round half up"


def profile_name(
    compute_slices: int, instance_bytes: int, board_bytes: int, attribute: str = ""
) -> str:
    """Return the name of a GPU instance profile, such as "1g.10gb+me"."""
    return f"{compute_slices}g.{memory_gb(instance_bytes, board_bytes)}gb{attribute}"


def resource_name(profile: str) -> str:
    """Return the Kubernetes resource name of a profile: "1g.10gb+me" -> "mig-1g.10gb.me".

    '+' is not legal in a resource name and becomes '.'; '-' ("-me") is kept.
    """
    return "mig-" + profile.replace("+", ".").replace(",", ".")


def place_name(profile: str, start: int, compute_start: int | None = None) -> str:
    """Return the name of a placed instance: "3g.40gb@4". ``mig.spec`` parses it.

    ``compute_start`` is the first compute slice of a device that is narrower than its GPU
    instance: "1c.3g.40gb@4.1".
    """
    return f"{profile}@{start}" if compute_start is None else f"{profile}@{start}.{compute_start}"


@dataclass(frozen=True, slots=True)
class ParsedName:
    """The parts of a profile name.

    In a name without "Cc.", ``compute_slices`` equals ``gpu_slices``.
    """

    compute_slices: int
    gpu_slices: int
    memory_gb: int
    attribute: str


def parse_name(name: str) -> ParsedName | None:
    """Split a profile name into its parts; return None if the text is not a profile name.

    The grammar is ``[<C>c.]<G>g.<M>gb[+attr[,attr]|-attr]``. Attributes keep their sign: "+me",
    "+me.all", "-me". '+' and '-' do not mix, and a compute instance cannot have more slices than
    its GPU instance.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    gpu = int(match["gpu"])
    compute = int(match["compute"] or gpu)
    if compute > gpu:
        return None
    return ParsedName(compute, gpu, int(match["gb"]), match["attribute"] or "")
