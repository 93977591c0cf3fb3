"""Compiled code as a value, and as the bytes that are kept on disk."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from vgpu_sim.exec.jit.plan import Block, Plan


@dataclass(frozen=True, slots=True)
class NativeCode:
    """An object file for this machine's CPU and one block shape.

    ``symbol`` is the entry's name in it. The entry stands where the code section, ``code_bytes``
    long, begins. ``words`` is a packed ``lines.WordTable``.
    """

    symbol: str
    object_code: bytes
    plan: Plan
    block: Block
    code_bytes: int = 0
    words: bytes = b""

    def to_bytes(self) -> bytes:
        """The whole value but its symbol and block, which whoever asks for it knows."""
        head = {
            "plan": asdict(self.plan),
            "code_bytes": self.code_bytes,
            "words_bytes": len(self.words),
        }
        return json.dumps(head).encode() + b"\n" + self.words + self.object_code

    @classmethod
    def from_bytes(cls, data: bytes, symbol: str, block: Block) -> Self:
        """Undo ``to_bytes``; ``data`` is what it returned."""
        head, _, rest = data.partition(b"\n")
        fields = json.loads(head)
        end = fields["words_bytes"]
        plan = Plan(**fields["plan"])
        return cls(symbol, rest[end:], plan, block, fields["code_bytes"], rest[:end])
