"""Kernels made by Inductor from a function of tensors with symbolic sizes and strides."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._dynamo.source import ConstantSource
from torch._dynamo.utils import counters
from torch._guards import TracingContext, tracing
from torch._inductor import config, metrics
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, DimDynamic, ShapeEnv

from tessera_torch import settings
from tessera_torch.nesting import LOCK, quiet
from tessera_torch.pinning import pin

# A kernel depends on its operation alone, not on trials, which would call eager operators.
_CONFIG = {
    "triton.autotune_pointwise": False,
    "deterministic": True,
    "fallback_random": True,
    "compile_threads": 1,
    "shape_padding": False,
    "triton.unique_kernel_names": True,
    "assert_indirect_indexing": False,
    "size_asserts": False,
    "nan_asserts": False,
    "alignment_asserts": False,
    "scalar_asserts": False,
    # A graph is one operator's decomposition: there is nothing to find or to join in it.
    "pattern_matcher": False,
    "triton.nested_reduction": False,
    "loop_ordering_after_fusion": False,
    "loop_reindexing_after_fusion": False,
    # PyTorch's eager kernels keep subnormal numbers in libdevice's functions.
    "eager_numerics.disable_ftz": True,
}
_CALL = re.compile(
    r"^\s*(?:\w+ = )?(?:torch\.ops\.aten|aten|extern_kernels)\.(\w+)(?:\.\w+)?\(", re.MULTILINE
)
_ALSO_DECOMPOSED = (
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_linear1d",
    "upsample_trilinear3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_nearest2d_backward",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "grid_sampler_2d",
    "im2col",
    "col2im",
    "renorm",
    "unfold_backward",
    "max_unpool2d",
    "max_unpool3d",
    "_embedding_bag",
    "addr",
    "renorm",
    "mv",
    "nll_loss2d_forward",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "adaptive_max_pool2d",
    "aminmax",
    "logcumsumexp",
    "native_batch_norm",
    "native_batch_norm_backward",
    "multi_margin_loss",
    "rrelu_with_noise",
    "multilabel_margin_loss_forward",
    "glu_jvp",
    "channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "linalg_cross",
    "trace",
    "take",
    "_chunk_cat",
    "isin",
)
_LOGGERS = (
    "torch._subclasses.fake_tensor",
    "torch._inductor.compile_fx",
    "torch._inductor.scheduler",
    "torch._inductor.runtime.triton_heuristics",  # prints a kernel that Triton refuses
)


@contextmanager
def _uncounted() -> Iterator[None]:
    """Leave what Inductor counts and shows of a program's compilations without this one.

    On a GPU, an eager operator makes no kernel in ``torch._inductor.metrics`` and no text in
    ``run_and_get_code``. The caller holds LOCK.
    """
    numbers = {name: getattr(metrics, name) for name in metrics.get_metric_fields()}
    kinds = {kind: counter.copy() for kind, counter in counters.items()}
    show = GraphLowering.save_output_code
    GraphLowering.save_output_code = None
    try:
        yield
    finally:
        GraphLowering.save_output_code = show
        for name, number in numbers.items():
            setattr(metrics, name, number)
        for kind in counters.keys() - kinds.keys():
            del counters[kind]
        for kind, counter in kinds.items():
            counters[kind].clear()
            counters[kind].update(counter)


class NotCompiled(Exception):
    """Inductor has no kernel for an operation."""


class Inputs:
    """The symbols and the fake tensors of one kernel, in the order in which they are passed."""

    def __init__(self) -> None:
        self.shapes = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(shape_env=self.shapes)
        self.symbols: list[Any] = []
        self.tensors: list[Any] = []
        self.aligned: list[int] = []  # which of the tensors are, on the device

    def symbol(self, hint: int) -> Any:
        """Return a new size or stride; its value is passed at each call."""
        source = ConstantSource(f"s{len(self.symbols)}")
        expression = self.shapes.create_symbol(hint, source, DimDynamic.DYNAMIC)
        self.symbols.append(self.shapes.create_symintnode(expression, hint=hint, source=source))
        return self.symbols[-1]

    def tensor(
        self, sizes: Sequence[Any], strides: Sequence[Any], like: Any, aligned: bool = True
    ) -> Any:
        """Add a tensor."""
        with self.mode:
            if aligned:
                fake = torch.empty_strided(
                    tuple(sizes), tuple(strides), dtype=like.dtype, device=like.device
                )
            else:  # an offset of one element: Inductor must not assume 16 bytes
                span = 2 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
                whole = torch.empty(span, dtype=like.dtype, device=like.device)
                fake = whole.as_strided(tuple(sizes), tuple(strides), 1)
        if aligned and like.is_cuda:
            self.aligned.append(len(self.tensors))
        self.tensors.append(fake)
        return fake

    def numbers(self, values: Sequence[Any], wide: bool) -> None:
        """Add numbers, each as a tensor without dimensions: those of Python on the CPU."""
        for value in values:
            if isinstance(value, torch.Tensor):
                self.tensor((), (), value)
                continue
            with self.mode:
                self.tensors.append(torch.empty((), dtype=number_dtype(value, wide)))


class Kernel:
    """A compiled function, and the condition under which it is right."""

    def __init__(self, run: Callable[[list[Any]], Any], guards: str | None) -> None:
        self.run = run
        self.guards = guards
        self._holds: Callable[[dict[str, int]], bool] | None = None
        if guards:
            scope = dict(SYMPY_INTERP)
            self._holds = eval(f"lambda L: {guards}", scope)

    def accepts(self, values: Sequence[int]) -> bool:
        """Return whether the kernel is right for these sizes and strides."""
        if self._holds is None:
            return True
        return bool(self._holds({f"t{i}": value for i, value in enumerate(values)}))


def _decompositions() -> dict[Any, Any]:
    """Return Inductor's decompositions, and PyTorch's of what Inductor would leave as it is."""
    table = dict(select_decomp_table())
    for name in _ALSO_DECOMPOSED:
        packet = getattr(torch.ops.aten, name, None)
        for overload_name in packet.overloads() if packet is not None else ():
            overload = getattr(packet, overload_name)
            if overload in decomposition_table:
                table.setdefault(overload, decomposition_table[overload])
    return table


def number_dtype(value: Any, wide: bool) -> Any:
    """Return the type in which a Python number reaches a kernel."""
    if isinstance(value, int):
        return torch.int64
    return torch.float64 if wide else torch.float32


def compile_function(
    function: Callable[..., Any],
    inputs: Inputs,
    own: frozenset[str] | set[str],
    is_loop: bool = False,
) -> Kernel:
    """Compile a function of the inputs' tensors.

    Args:
        function: takes the tensors in order and returns a tuple.
        inputs: its symbols and tensors.
        own: operators that Inductor's code may call, because this package computes them.
        is_loop: the kernel is a loop over elements that writes to given targets. It is right for
            all sizes and strides unless PyTorch has taken two of them for equal: it compares
            them to choose the order of loops.

    Raises:
        NotCompiled: Inductor would call an operator of PyTorch.
    """
    skip = len(inputs.symbols)
    everything = [*inputs.symbols, *inputs.tensors]

    def with_symbols(*values: Any) -> Any:
        return function(*values[skip:])

    with LOCK, quiet(_LOGGERS):
        with inputs.mode, torch.no_grad():
            graph = make_fx(with_symbols, decomposition_table=_decompositions())(*everything)
        with (
            pin(),
            _uncounted(),
            settings.without_ptx_check(),
            config.patch(_CONFIG),
            tracing(TracingContext(inputs.mode)),
            torch.no_grad(),
        ):
            # Without this, Inductor's cache would not distinguish kernels by alignment.
            aligned = [skip + i for i in inputs.aligned]
            code: Any = compile_fx_inner(graph, everything, static_input_idxs=aligned)
        called_names = _CALL.findall(getattr(code, "source_code", "") or "")
        called = {name for name in called_names if hasattr(torch.ops.aten, name)} - own
        if called:
            raise NotCompiled(f"Inductor has no kernel for {', '.join(sorted(called))}")
        guards = None
        if inputs.symbols and inputs.shapes.guards:
            guards = inputs.shapes.produce_guards_expression(inputs.symbols)
        if is_loop and guards and "==" not in guards:
            guards = None
    return Kernel(code, guards)
