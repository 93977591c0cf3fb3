"""Kernels under torch.jit.trace, of operators that PyTorch records but does not hide it from."""

import functools
from collections.abc import Callable
from typing import Any, Final

import torch

_TRACER: Final = torch._C._dispatch_key_parse("Tracer")


def pause_trace(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes as without a trace.

    While PyTorch traces, sizes are tensors in Python, and each use of them is recorded.
    """

    @functools.wraps(compute)
    def compute_without_trace(*arguments: Any, **keywords: Any) -> Any:
        state = torch._C._get_tracing_state()
        if state is None:
            return compute(*arguments, **keywords)
        _set_state(None)
        try:
            return compute(*arguments, **keywords)
        finally:
            _set_state(state)

    return compute_without_trace


def _set_state(state: Any) -> None:
    """Change the thread's trace: PyTorch refuses that while its key of dispatch is excluded."""
    is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded(_TRACER)
    torch._C._dispatch_tls_set_dispatch_key_excluded(_TRACER, False)
    torch._C._set_tracing_state(state)
    torch._C._dispatch_tls_set_dispatch_key_excluded(_TRACER, is_excluded)
