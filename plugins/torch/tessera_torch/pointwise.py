"""Element-wise operators: one kernel for operands of any sizes that are passed in one pattern."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from tessera_torch import counts, layout
from tessera_torch.arguments import Arguments, on_device
from tessera_torch.checks.messages import broadcast_shapes, check_cast
from tessera_torch.checks.overlap import check_inner_overlap, check_overlap
from tessera_torch.forms import formula
from tessera_torch.formulas.float8 import as_bytes
from tessera_torch.layout import Iteration
from tessera_torch.nesting import Nested, compiling
from tessera_torch.operands.promotion import Operands, check_float8, convert
from tessera_torch.replay.recording import Recorder
from tessera_torch.signature import Signature
from tessera_torch.targets import resize

_HINTS = {1: 65536, 2: 256, 3: 64, 4: 16}  # sizes that a kernel is made for; it is right for all


class Pointwise:
    """One overload: loops over elements, with kernels by types and strides."""

    def __init__(
        self, signature: Signature, function: Callable[[list[Any], bool], Any] | None = None
    ) -> None:
        """Prepare an overload, or a function that takes the place of its formula."""
        self.signature = signature
        self.formula = function or formula(signature)
        self._fixed = False
        self._kernels: dict[Any, Any] = {}
        self._dtypes: dict[Any, tuple[Any, ...]] = {}

    @property
    def fixes_numbers(self) -> bool:
        """Whether kernels depend on the values of numbers."""
        return self._fixed

    def __call__(self, full: list[Any], recorder: Recorder | None = None) -> Any:
        """Compute. Raises what PyTorch raises for wrong arguments, and NotCompiled."""
        return self._call(full, self._fixed, recorder)

    def _call(self, full: list[Any], fixed: bool, recorder: Recorder | None = None) -> Any:
        signature = self.signature
        arguments = Arguments(signature, signature.without_targets(full), fixed)
        targets = signature.targets(full)
        if targets:
            check_overlap(targets, arguments.tensors)
        key = (arguments.key, tuple(target.dtype for target in targets))
        dtypes = self._dtypes.get(key)
        if dtypes is None:
            dtypes = self._dtypes[key] = self._infer(arguments, targets, full)
        if signature.is_out:
            shape = broadcast_shapes(*(tensor.shape for tensor in arguments.tensors))
            for target in targets:
                resize(target, shape)
        loop = self._loop(arguments, targets)
        written = targets or [
            torch.empty_strided(
                loop.shape, loop.result_strides, dtype=dtype, device=arguments.tensors[0].device
            )
            for dtype in dtypes
        ]
        if written[0].numel():
            try:
                self._run(arguments, written, bool(targets), loop, key, dtypes, recorder)
            except Nested:
                raise
            except Exception:
                if fixed or not arguments.has_python_numbers():
                    raise
                results = self._call(full, True)
                self._fixed = True  # PyTorch's formula wants Python's numbers
                return results
        if signature.writes:
            return signature.answer(full)
        return written[0] if len(written) == 1 else tuple(written)

    def _loop(self, arguments: Arguments, targets: Sequence[Any]) -> Iteration:
        operands = [*targets, *(tensor for tensor in arguments.tensors if tensor.dim())]
        first = operands[0] if operands else arguments.tensors[0]
        shape = first.shape
        if all(tensor.shape == shape and tensor.is_contiguous() for tensor in operands):
            strides = first.stride()
            count = first.numel()
            if count < 2:
                empty_strides: tuple[int, ...] = ()
                return Iteration(
                    tuple(shape),
                    strides,
                    empty_strides,
                    (empty_strides,) * len(operands),
                    empty_strides,
                )
            flat = (1,)
            return Iteration(tuple(shape), strides, (count,), (flat,) * len(operands), flat)
        described = [(tuple(tensor.shape), tensor.stride()) for tensor in operands]
        try:
            loop = layout.iterate(described, tuple(targets[0].shape) if targets else None)
        except ValueError as err:
            common = broadcast_shapes(*(tensor.shape for tensor in [*targets, *arguments.tensors]))
            if targets:
                raise RuntimeError(
                    f"output with shape {list(targets[0].shape)} doesn't match the broadcast shape"
                    f" {list(common)}"
                ) from None
            raise RuntimeError(f"{self.signature.name}: {err}") from err
        check_inner_overlap(targets)
        return loop

    def _run(
        self,
        arguments: Arguments,
        written: Sequence[Any],
        are_targets: bool,
        loop: Iteration,
        key: Any,
        dtypes: Sequence[Any],
        recorder: Recorder | None,
    ) -> None:
        # Operands of the loop are targets first, then inputs; a new result is the loop's last one.
        if are_targets:
            targets_strides = loop.strides[: len(written)]
            inputs_strides = loop.strides[len(written) :]
        else:
            targets_strides = (loop.result_loop_strides,) * len(written)
            inputs_strides = loop.strides
        passed = [as_bytes(tensor) for tensor in (*arguments.tensors, *written)]
        aligned = tuple(tensor.data_ptr() % 16 == 0 for tensor in passed)
        whole = (key, loop.pattern(not are_targets), aligned)
        values = [*loop.sizes]
        for strides in (*inputs_strides, *targets_strides):
            values.extend(s for s in strides if s > 1)
        kernels = self._kernels.setdefault(whole, [])
        wide = arguments.is_wide()
        for kernel in kernels:
            if kernel.accepts(values):
                break
        else:
            kernel = self._compile(
                arguments, written, loop, (inputs_strides, targets_strides), aligned, dtypes
            )
            kernels.append(kernel)
        everything = [*values, *arguments.passed_numbers(wide), *passed]
        if recorder is None:
            kernel.run(everything)
        else:
            places = self.signature.places(arguments.places)
            recorder.run(kernel, everything, places, () if are_targets else written)

    def _compile(
        self,
        arguments: Arguments,
        written: Sequence[Any],
        loop: Iteration,
        strides: tuple[Sequence[layout.Ints], Sequence[layout.Ints]],
        aligned: Sequence[bool],
        dtypes: Sequence[Any],
    ) -> Any:
        started = time.perf_counter()
        with compiling(self.signature.name):
            from tessera_torch.tracing import Inputs, compile_function

            inputs = Inputs()
            rank = len(loop.sizes)
            hint = _HINTS.get(rank, 8)
            if loop.is_big([*strides[0], *strides[1]]):
                hint = int((2**33) ** (1 / rank)) + 1
            sizes = [inputs.symbol(hint + i) for i in range(rank)] or [1]
            described = []
            remaining = iter(strides[0])
            for tensor in arguments.tensors:
                own = next(remaining) if tensor.dim() else None
                described.append((as_bytes(tensor), own))
            described.extend(zip(map(as_bytes, written), strides[1], strict=True))
            laid: list[tuple[Any, Any, Any]] = []
            for tensor, own in described:
                if own is None or (not tensor.dim() and not any(t.dim() for t in written)):
                    laid.append((tensor, (), ()))
                    continue
                step = hint + rank + len(laid)  # unlike all sizes, and unlike others' steps
                symbols = [
                    s if s < 2 else inputs.symbol(2 * step ** (rank - i)) for i, s in enumerate(own)
                ] or [1]
                laid.append((tensor, sizes, symbols))
            inputs.numbers(arguments.numbers, arguments.is_wide())
            for (tensor, shape, own_strides), is_aligned in zip(laid, aligned, strict=True):
                inputs.tensor(shape, own_strides, tensor, is_aligned)
            kernel = compile_function(
                self._function(arguments, written, dtypes), inputs, set(), is_loop=True
            )
        spent = time.perf_counter() - started
        counts.COMPILED[self.signature.name] += 1
        counts.SECONDS[self.signature.name] += spent
        counts.log(f"{self.signature.name}: {arguments.key}, rank {rank}, {spent:.2f} s")
        return kernel

    def _function(
        self, call_arguments: Arguments, written: Sequence[Any], dtypes: Sequence[Any]
    ) -> Any:
        device = written[0].device
        common = _common(call_arguments)
        bring = on_device(device, common)
        scaled = self.signature.alpha >= 0 and call_arguments.spec[self.signature.alpha] == "n"
        numbers = len(call_arguments.numbers)
        inputs = len(call_arguments.tensors)
        operands = Operands(self.signature, call_arguments, dtypes)
        types = [(dtype, target.dtype) for dtype, target in zip(dtypes, written, strict=True)]

        def function(*values: Any) -> Any:
            brought = [bring(number) for number in values[:numbers]]
            arguments = operands.rebuild(values[numbers : numbers + inputs], brought)
            results = operands.compute(arguments)
            if results is None:
                results = self.formula(arguments, scaled)
            listed = results if isinstance(results, (tuple, list)) else (results,)
            for target, output, own in zip(values[numbers + inputs :], listed, types, strict=True):
                converted = convert(output, *own)
                if converted.shape != target.shape:
                    converted = converted.expand(target.shape)
                torch.ops.aten.copy_.default(target, converted)
            return ()

        return function

    def _infer(
        self, arguments: Arguments, targets: Sequence[Any], full: Sequence[Any]
    ) -> tuple[Any, ...]:
        """Return the results' types. Raises what PyTorch raises for these arguments."""
        arguments.check_devices()
        check_float8(self.signature, arguments)
        if any(
            tensor.is_complex() for tensor in arguments.tensors
        ):  # after those computed by parts
            from tessera_torch.tracing import NotCompiled

            raise NotCompiled("it is not computed for complex numbers")
        if self.signature.functional is None:
            return tuple(target.dtype for target in targets)
        from tessera_torch.inference import infer

        results = infer(self.signature, full)
        for target, dtype in zip(targets, results, strict=False):
            check_cast(dtype, target.dtype)
        return results


def _common(arguments: Arguments) -> Any:
    """Return the type in which numbers are computed if no operand has dimensions, else None."""
    if any(tensor.dim() for tensor in arguments.tensors):
        return None
    for number in arguments.numbers:
        if not isinstance(number, torch.Tensor):
            return torch.result_type(arguments.tensors[0], number)
    return None


_LOCK: Final = threading.Lock()
_KERNELS: Final[dict[Any, Pointwise]] = {}


class _Form(Signature):
    """A function in place of an overload: the last of its arguments are written."""

    def __init__(self, name: str, inputs: int, targets: int) -> None:
        self.name = name
        self.is_out = False
        self.functional = None
        self.alpha = -1
        self.numbers = [True] * inputs
        self.writes = list(range(inputs, inputs + targets))
        self.results = ()

    def without_targets(self, full: Sequence[Any]) -> list[Any]:
        """Return the inputs."""
        return list(full[: self.writes[0]])


def compute_into(
    name: str,
    key: Any,
    formula: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    targets: Sequence[Any],
) -> None:
    """Write a function's results into tensors, which may be inputs too, by one kernel.

    Steps are in the types in which the function computes them: nothing is rounded between two.

    Args:
        name: names the function in counts.
        key: distinguishes functions of that name: kernels are kept by both.
        formula: takes the inputs' tensors and returns a result for each target.
        inputs: tensors and Python's numbers, which are broadcast.
        targets: each result is rounded to the type of its target.
    """
    with _LOCK:
        kernel = _KERNELS.get((name, key))
        if kernel is None:
            form = _Form(name, len(inputs), len(targets))
            kernel = Pointwise(form, lambda arguments, scaled: formula(*arguments))
            _KERNELS[name, key] = kernel
    kernel([*inputs, *targets])
