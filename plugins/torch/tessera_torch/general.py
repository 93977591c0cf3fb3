"""All other operators that Inductor compiles: kernels by types and the layouts' patterns."""

import time
from collections.abc import Sequence
from typing import Any

import torch

from tessera_torch import counts
from tessera_torch.arguments import Arguments, on_device
from tessera_torch.checks.overlap import check_apart, check_inner_overlap, check_overlap
from tessera_torch.forms import formula
from tessera_torch.formulas import float8
from tessera_torch.inference import infer
from tessera_torch.layouts import Layout, layout_of
from tessera_torch.nesting import Nested, compiling
from tessera_torch.operands.promotion import Operands, check_float8
from tessera_torch.operands.rules import ALSO_PROMOTED, MOVES
from tessera_torch.replay.recording import Recorder
from tessera_torch.signature import Signature
from tessera_torch.targets import write

# Operators whose inputs may not be the target itself.
_APART = ("index_add_", "index_copy_", "index_fill_", "index_reduce_")
_MOST_KERNELS = 32  # for one key; more are a sign that guards depend on exact sizes


class General:
    """One overload: kernels with symbolic sizes and strides, and exact ones where that fails."""

    def __init__(self, signature: Signature, own: frozenset[str] | set[str]) -> None:
        self.signature = signature
        self.formula = formula(signature)
        self._own = own
        self._fixed = False
        self._kernels: dict[Any, list[Any]] = {}
        results = signature.functional._schema.returns
        self._single = len(results) == 1
        self._moves = signature.functional._schema.name.partition("::")[2] in MOVES
        self._listed = self._single and "List" in str(results[0].type)

    @property
    def fixes_numbers(self) -> bool:
        """Whether kernels depend on the values of numbers."""
        return self._fixed

    def __call__(self, full: list[Any], recorder: Recorder | None = None) -> Any:
        """Compute. Raises what PyTorch raises for wrong arguments, and NotCompiled."""
        signature = self.signature
        eight = float8.only_type(full) if self._moves else None
        if eight is not None:
            results = self(float8.as_bytes_within(full))
            return (
                signature.answer(full)
                if signature.writes
                else float8.as_floats_within(results, eight)
            )
        arguments = Arguments(signature, signature.without_targets(full), self._fixed)
        targets = signature.targets(full)
        if targets:
            # out= is written after the result is computed, so it may share memory with inputs.
            check_overlap(targets, () if signature.is_out else arguments.tensors)
            check_inner_overlap(targets)
            if signature.name.partition(".")[0] in _APART:
                check_apart(targets[0], arguments.tensors[1:])
        if not signature.is_out:
            return self._try(arguments, full, recorder)
        results = self._try(arguments, signature.without_targets(full))
        listed = (results,) if self._single else results
        for target, output in zip(targets, listed, strict=True):
            write(signature.name, target, output)
        return signature.answer(full)

    def _try(self, arguments: Arguments, full: list[Any], recorder: Recorder | None = None) -> Any:
        try:
            return self._run(arguments, full, recorder)
        except Nested:
            raise
        except Exception:
            if self._fixed or not arguments.has_python_numbers():
                raise
            inputs = full if self.signature.is_out else self.signature.without_targets(full)
            results = self._run(Arguments(self.signature, inputs, True), full)
            self._fixed = True  # PyTorch's formula wants Python's numbers
            return results

    def _run(
        self, arguments: Arguments, full: Sequence[Any], recorder: Recorder | None = None
    ) -> Any:
        layouts = [layout_of(tensor) for tensor in arguments.tensors]
        key = (arguments.key, *layouts)
        values = [
            value
            for tensor, own in zip(arguments.tensors, layouts, strict=True)
            for value in own.values(tensor)
        ]
        kernels = self._kernels.setdefault(key, [])
        for kernel, exact in kernels:
            if values == exact if exact is not None else kernel.accepts(values):
                break
        else:
            kernel, exact = self._compile(arguments, full, layouts, values)
            if len(kernels) < _MOST_KERNELS:
                kernels.append((kernel, exact))
        passed = [*arguments.passed_numbers(arguments.is_wide()), *arguments.tensors]
        everything = passed if exact is not None else [*values, *passed]
        if recorder is None:
            results = kernel.run(everything)
        else:
            results = recorder.run(kernel, everything, self.signature.places(arguments.places))
        if self.signature.writes and not self.signature.is_out:
            return self.signature.answer(full)
        if self._listed:
            return list(results)
        return results[0] if self._single else tuple(results)

    def _compile(
        self,
        arguments: Arguments,
        full: Sequence[Any],
        layouts: Sequence[Layout],
        values: list[int],
    ) -> tuple[Any, list[int] | None]:
        arguments.check_devices()
        check_float8(self.signature, arguments)
        with compiling(self.signature.name):
            started = time.perf_counter()
            if self.signature.is_out:
                infer(_functional_signature(self.signature), full)
            else:
                infer(self.signature, full)
            try:
                kernel, exact = self._attempt(arguments, full, layouts, symbolic=True), None
            except Exception as err:  # noqa: BLE001 symbolic sizes are an attempt: exact ones follow
                counts.log(f"{self.signature.name}: exact sizes, because {_first_line(err)}")
                kernel, exact = self._attempt(arguments, full, layouts, symbolic=False), values
        spent = time.perf_counter() - started
        counts.COMPILED[self.signature.name] += 1
        counts.SECONDS[self.signature.name] += spent
        counts.log(f"{self.signature.name}: {arguments.key}, {layouts}, {spent:.2f} s")
        return kernel, exact

    def _attempt(
        self, arguments: Arguments, full: Sequence[Any], layouts: Sequence[Layout], symbolic: bool
    ) -> Any:
        from tessera_torch.tracing import Inputs, compile_function

        inputs = Inputs()
        described = []
        for tensor, own in zip(arguments.tensors, layouts, strict=True):
            if symbolic:
                sizes, strides = own.symbols(tensor, inputs.symbol)
            else:
                sizes, strides = tuple(tensor.shape), tensor.stride()
            described.append((sizes, strides, tensor, own.aligned))
        inputs.numbers(arguments.numbers, arguments.is_wide())
        for sizes, strides, tensor, aligned in described:
            inputs.tensor(sizes, strides, tensor, aligned)
        return compile_function(self._function(arguments), inputs, self._own)

    def _function(self, call_arguments: Arguments) -> Any:
        signature = self.signature
        device = (
            call_arguments.tensors[0].device if call_arguments.tensors else torch.device("cuda")
        )
        bring = on_device(device, None)
        scaled = signature.alpha >= 0 and call_arguments.spec[signature.alpha] == "n"
        numbers = len(call_arguments.numbers)
        in_place = bool(signature.writes) and not signature.is_out
        is_promoted = signature.name.partition(".")[0] in ALSO_PROMOTED
        operands = Operands(signature, call_arguments, (None,)) if is_promoted else call_arguments

        def function(*values: Any) -> Any:
            brought = [bring(number) for number in values[:numbers]]
            arguments = operands.rebuild(values[numbers:], brought)
            results = self.formula(list(arguments), scaled)
            listed = tuple(results) if isinstance(results, (tuple, list)) else (results,)
            if not in_place:
                return listed
            for position, output in zip(signature.writes, listed, strict=True):
                target = arguments[position]
                converted = output if output.dtype == target.dtype else output.to(target.dtype)
                torch.ops.aten.copy_.default(target, converted.expand(target.shape))
            return ()

        return function


def _functional_signature(signature: Signature) -> Signature:
    return Signature(signature.functional)


def _first_line(err: BaseException) -> str:
    return f"{type(err).__name__}: {str(err).strip().partition(chr(10))[0][:200]}"
