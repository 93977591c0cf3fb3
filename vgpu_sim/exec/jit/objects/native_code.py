"""Compiled code as a value, and its serialized form in the cache."""

import json
from dataclasses import asdict
from typing import Self

from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.objects import object_check
from vgpu_sim.exec.jit.planning.plan import Block, Plan
from vgpu_sim.records import dataclass

# Per group of lanes; checked at compilation and at loading. A worker reserves that much for each of
# up to 1,024 groups on each of its threads. Untouched pages cost only addresses: 256 GiB per
# thread, of the 110 TiB that an aperture leaves.
MAX_STACK_BYTES = 256 << 20


def check_stack(stack_bytes: int) -> None:
    """Raise ValueError if a group of lanes needs more stack than a worker provides."""
    if not 0 <= stack_bytes <= MAX_STACK_BYTES:
        limit = f"the limit is {MAX_STACK_BYTES}"
        raise ValueError(f"a group of lanes needs {stack_bytes} bytes of stack; {limit}")


@dataclass(frozen=True, slots=True)
class NativeCode:
    """An object file for this machine's CPU and one block shape.

    ``symbol`` is the name of the entry point, which is at the start of the code section of
    ``code_bytes``. ``words`` is a packed ``instruction_table.InstructionTable``. ``groups``,
    ``stack_bytes``, ``counts`` and ``polls`` describe how the entry is called (see
    ``hal.compute.ports.NativeEntry``).

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
        """Serialize all fields except ``symbol`` and ``block``, which the reader of the data
        knows.
        """
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
        """Return the native code that ``to_bytes`` serialized; the writer is not trusted.

        Raises:
            ValueError: the data is not a serialized kernel with this symbol and block.
        """
        begin = data.find(b"\n") + 1
        try:
            fields = json.loads(data[:begin])
            end, code_bytes = fields["words_bytes"], fields["code_bytes"]
            groups, stack_bytes = fields["groups"], fields["stack_bytes"]
            counts, polls = fields["counts"], fields["polls"] is True
            plan = Plan(**fields["plan"])
            geometry = plan.geometry(block)
        except (KeyError, TypeError, RecursionError, PlanError) as err:
            raise ValueError("the object code in the cache is damaged") from err
        if type(end) is not int or type(code_bytes) is not int or not 0 <= end <= len(data) - begin:
            raise ValueError("the object code in the cache is damaged")
        if groups not in (0, geometry.groups) or type(stack_bytes) is not int:
            raise ValueError("the object code in the cache is damaged")
        if type(counts) is not int or counts not in (0, geometry.span):
            raise ValueError("the object code in the cache is damaged")
        words, object_code = data[begin : begin + end], data[begin + end :]
        object_check.check(object_code, symbol)
        return cls(
            symbol,
            object_code,
            plan,
            block,
            code_bytes,
            words,
            groups=groups,
            stack_bytes=stack_bytes,
            counts=counts,
            polls=polls,
        )
