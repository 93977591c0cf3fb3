"""What an overload computes: its form without targets, and which numbers are run-time values."""

from collections.abc import Sequence
from typing import Any

import torch

from tessera_torch.replay.key import ALPHA, CONSTANT, RUN_TIME

# Numbers that decide how PyTorch computes; a kernel for each value.
_CONSTANT = frozenset(
    {"pow.Tensor_Scalar", "pow_.Scalar", "pow.Tensor_Scalar_out", "clamp", "clamp_"}
)
# PyTorch does not tag each of their overloads as element-wise.
_ALSO_POINTWISE = frozenset({"aten::fill", "aten::copy", "aten::masked_fill", "aten::rsub"})
_NUMBER_TYPES = frozenset({"number", "Scalar"})
_SCALED = frozenset({"aten::add", "aten::sub"})  # their alpha multiplies the second operand


class Signature:
    """One overload of an operator, in the terms in which it is compiled."""

    def __init__(self, overload: Any) -> None:
        schema = overload._schema
        self.overload = overload
        self.name = short_name(schema)
        self.names = tuple(argument.name for argument in schema.arguments)
        self.defaults = tuple(argument.default_value for argument in schema.arguments)
        self.is_out = any(argument.is_out for argument in schema.arguments)
        self.writes, self.functional = _functional(overload)
        self.results = tuple(str(output.type) for output in schema.returns)
        self.call = self.functional
        self.alpha = -1
        self.numbers = [False] * len(self.names)  # of the functional form
        if self.functional is not None:
            self._find_numbers()
        self.is_pointwise = self.functional is not None and _is_pointwise(self.functional)

    def bind(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> list[Any]:
        """Return all arguments in the schema's order."""
        full = list(arguments)
        for i in range(len(full), len(self.names)):
            full.append(keywords.get(self.names[i], self.defaults[i]))
        return full

    def without_targets(self, full: Sequence[Any]) -> list[Any]:
        """Return the arguments of the functional form."""
        if not self.is_out:
            return list(full)
        return [argument for i, argument in enumerate(full) if i not in self.writes]

    def places(self, inputs: Sequence[int]) -> list[int]:
        """Return the schema's positions of some inputs of the functional form."""
        if not self.is_out:
            return list(inputs)
        input_positions = [i for i in range(len(self.names)) if i not in self.writes]
        return [input_positions[i] if i >= 0 else -1 for i in inputs]

    def targets(self, full: Sequence[Any]) -> list[Any]:
        """Return the tensors that are written."""
        return [full[i] for i in self.writes]

    def answer(self, full: Sequence[Any]) -> Any:
        """Return what an operation with targets returns."""
        if not self.results:
            return None
        written = self.targets(full)
        return written[0] if len(self.results) == 1 else tuple(written)

    def _find_numbers(self) -> None:
        arguments = self.functional._schema.arguments
        self.numbers = [str(argument.type) == "Tensor" for argument in arguments]
        if self.name in _CONSTANT or short_name(self.functional._schema) in _CONSTANT:
            return
        for i, argument in enumerate(arguments):
            if str(argument.type) not in _NUMBER_TYPES:
                continue
            tensor_form = _tensor_overload(self.call, i)
            if tensor_form is not None:
                self.call = tensor_form
                self.numbers[i] = True
            elif argument.name == "alpha" and i == 2 and self.functional._schema.name in _SCALED:
                self.alpha = i
                self.numbers[i] = True


def kinds_of_numbers(signature: Signature) -> list[int]:
    """Return for each argument of the schema how a kernel gets a number there."""
    kinds = [CONSTANT] * len(signature.names)
    for i, place in enumerate(signature.places(range(len(signature.numbers)))):
        if signature.numbers[i]:
            kinds[place] = ALPHA if i == signature.alpha else RUN_TIME
    return kinds


def short_name(schema: Any) -> str:
    """Return an overload's name without its namespace."""
    name: str = schema.name.split("::")[1]
    return f"{name}.{schema.overload_name}" if schema.overload_name else name


def call_schema(function: Any, arguments: Sequence[Any], called: Any = None) -> Any:
    """Call an overload, or a function in its place, with all arguments of its schema in order."""
    schema = function._schema.arguments
    positional = [
        argument for argument, a in zip(arguments, schema, strict=True) if not a.kwarg_only
    ]
    keywords = {
        a.name: argument for argument, a in zip(arguments, schema, strict=True) if a.kwarg_only
    }
    return (called or function)(*positional, **keywords)


def call_with_numbers(function: Any, arguments: Sequence[Any]) -> Any:
    """Call an overload; another one if it takes a tensor where the arguments have a number."""
    for operand, argument in zip(arguments, function._schema.arguments, strict=True):
        if str(argument.type) == "Tensor" and isinstance(operand, (bool, int, float, complex)):
            return call_schema(function, arguments, function._overloadpacket)
    return call_schema(function, arguments)


def _functional(overload: Any) -> tuple[list[int], Any]:
    """Return the positions that an overload writes, and its form without targets, or None."""
    schema = overload._schema
    outs = [i for i, a in enumerate(schema.arguments) if a.is_out]
    writes = [
        i
        for i, a in enumerate(schema.arguments)
        if a.alias_info is not None and a.alias_info.is_write
    ]
    if not writes:
        return writes, overload
    name = schema.name.split("::")[1]
    expected_arguments = [
        (a.name, str(a.type)) for i, a in enumerate(schema.arguments) if i not in outs
    ]
    packet = overload._overloadpacket
    if not outs:
        packet = getattr(torch.ops.aten, _name_without_target(name), None)
    if packet is None:
        return writes, None
    for overload_name in packet.overloads():
        candidate = getattr(packet, overload_name)._schema
        is_match = [(a.name, str(a.type)) for a in candidate.arguments] == expected_arguments
        if is_match and not candidate.is_mutable:
            return writes, getattr(packet, overload_name)
    return writes, None


def _name_without_target(name: str) -> str:
    """Return the name of an in-place operator's functional form: ``__lshift__`` of ``__ilshift__``.

    Names with two underscores at both ends are those of Python's methods.
    """
    if name.startswith("__i") and name.endswith("__"):
        return f"__{name[3:]}"
    return name.removesuffix("_")


def _tensor_overload(function: Any, position: int) -> Any:
    """Return the overload that takes a tensor where this one takes a number, if there is one."""
    expected_types = [str(a.type) for a in function._schema.arguments]
    expected_types[position] = "Tensor"
    packet = function._overloadpacket
    for overload_name in packet.overloads():
        schema = getattr(packet, overload_name)._schema
        if not schema.is_mutable and [str(a.type) for a in schema.arguments] == expected_types:
            return getattr(packet, overload_name)
    return None


def _is_pointwise(function: Any) -> bool:
    tags = function.tags
    is_tagged = torch.Tag.pointwise in tags or function._schema.name in _ALSO_POINTWISE
    if not is_tagged or torch.Tag.nondeterministic_seeded in tags:
        return False
    if any("List" in str(a.type) and "Tensor" in str(a.type) for a in function._schema.arguments):
        return False
    return all(str(output.type) == "Tensor" for output in function._schema.returns)
