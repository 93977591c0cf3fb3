"""Compiled code as a value, and as the bytes that are kept on disk."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.objects import object_check
from vgpu_sim.exec.jit.planning.plan import Block, Plan

# Of a group of lanes; holds for what is compiled and for what is read. A worker reserves that for
# each of up to 1,024 groups on each of its threads. Until a page is touched that costs addresses
# alone: 256 GiB a thread, out of the 110 TiB that an aperture leaves.
MAX_STACK_BYTES = 256 << 20


def check_stack(stack_bytes: int) -> None:
    """Raise ValueError for more stack of a group of lanes than a worker provides."""
    if not 0 <= stack_bytes <= MAX_STACK_BYTES:
        limit = f"at most {MAX_STACK_BYTES}"
        raise ValueError(f"{stack_bytes} bytes of stack for a group of lanes; {limit}")


@dataclass(frozen=True, slots=True)
class NativeCode:
    """An object file for this machine's CPU and one block shape.

    ``symbol`` is the entry's name in it. The entry stands where the code section, ``code_bytes``
    long, begins. ``words`` is a packed ``lines.WordTable``. How the entry is called say ``groups``,
    ``stack_bytes``, ``counts`` and ``polls`` (see ``hal.compute.ports.NativeEntry``).

    Raises (from its constructor):
        ValueError: for more stack than a worker provides.
    """

    symbol: str
    object_code: bytes
    plan: Plan
    block: Block
    code_bytes: int = 0
    words: bytes = b""
    groups: int = 0
    stack_bytes: int = 0
    counts: int = 0
    polls: bool = False

    def __post_init__(self) -> None:
        check_stack(self.stack_bytes)

    def to_bytes(self) -> bytes:
        """Return the whole value but its symbol and block, which whoever asks for it knows."""
        head = {
            "plan": asdict(self.plan),
            "code_bytes": self.code_bytes,
            "words_bytes": len(self.words),
            "groups": self.groups,
            "stack_bytes": self.stack_bytes,
            "counts": self.counts,
            "polls": self.polls,
        }
        return json.dumps(head).encode() + b"\n" + self.words + self.object_code

    @classmethod
    def from_bytes(cls, data: bytes, symbol: str, block: Block) -> Self:
        """Undo ``to_bytes`` of a value whose writer is not trusted.

        Raises:
            ValueError: it is not what ``to_bytes`` returns for a kernel of this symbol and block.
        """
        head, _, rest = data.partition(b"\n")
        try:
            fields = json.loads(head)
            end, code_bytes = fields["words_bytes"], fields["code_bytes"]
            groups, stack_bytes = fields["groups"], fields["stack_bytes"]
            counts, polls = fields["counts"], fields["polls"] is True
            plan = Plan(**fields["plan"])
            geometry = plan.geometry(block)
        except (KeyError, TypeError, RecursionError, PlanError) as err:
            raise ValueError("damaged code") from err
        if type(end) is not int or type(code_bytes) is not int or not 0 <= end <= len(rest):
            raise ValueError("damaged code")
        if groups not in (0, geometry.groups) or type(stack_bytes) is not int:
            raise ValueError("damaged code")
        if type(counts) is not int or counts not in (0, geometry.span):
            raise ValueError("damaged code")
        object_check.check(rest[end:], symbol)
        how = (groups, stack_bytes, counts, polls)
        return cls(symbol, rest[end:], plan, block, code_bytes, rest[:end], *how)
