"""The registers of a function that hold a constant wherever they are read."""

from collections import Counter
from functools import cached_property

from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import tree


class Constants:
    """The constants of one function, which are collected when an instruction first needs one."""

    def __init__(self, function: tree.Function | None = None) -> None:
        """Read the body of ``function`` later; without one there are no constants."""
        self._function = function

    def of(self, operand: tree.Operand) -> int | None:
        """Return the value of an integer constant, or of a register to which the function's only
        write moves one. Others return None.
        """
        if isinstance(operand, tree.Integer):
            return operand.value
        if isinstance(operand, tree.Name) and not operand.component:
            return self._moved.get(operand.text)
        return None

    @cached_property
    def _moved(self) -> dict[str, int]:
        function = self._function
        if function is None or function.body is None:
            return {}
        # A caller writes to parameters in registers. Scopes may declare a name twice: all count.
        writes = Counter(variable.name for variable in (*function.returns, *function.parameters))
        values: dict[str, int] = {}
        for instruction in names.instructions(function.body):
            match instruction.operands:
                case (tree.Memory(), *_):
                    continue
                case (tree.Name(text=name), tree.Integer(value=value)) if (
                    instruction.opcode == "mov"
                ):
                    values[name] = value
            writes.update(names.in_operands(instruction.operands[:1]))
        return {name: value for name, value in values.items() if writes[name] == 1}
