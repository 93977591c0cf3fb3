"""Rows of results and expected tensors, which are equal in all bits; all NaNs count as one."""

from collections.abc import Iterable
from typing import Any

import torch

Row = tuple[str, Any, Any]
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def check(listed: Iterable[Row]) -> int:
    """Print the rows that are wrong, and how many are right; return an exit status."""
    count = wrong = 0
    for name, result, expected in listed:
        count += 1
        if not isinstance(result, torch.Tensor) or not isinstance(expected, torch.Tensor):
            if result != expected:
                wrong += 1
                print(f"FAIL {name}: {result}, expected {expected}", flush=True)
            continue
        result, expected = result.cpu(), expected.cpu()
        own, other = bits(result), bits(expected)
        if result.dtype == expected.dtype and torch.equal(own, other):
            continue
        wrong += 1
        places = (own != other).nonzero()[:3].tolist() if own.shape == other.shape else []
        rank = result.dim()
        shown = [[one[tuple(at[:rank])].item() for at in places] for one in (result, expected)]
        print(f"FAIL {name} at {places}: {shown[0]}, expected {shown[1]}", flush=True)
    print(f"{count - wrong} of {count} rows right")
    return 1 if wrong else 0


def bits(tensor: Any) -> Any:
    """Return a tensor's bits, with one NaN."""
    if tensor.is_complex():
        return bits(torch.view_as_real(tensor.resolve_conj().contiguous()))
    tensor = tensor.contiguous()
    if not tensor.is_floating_point():
        return tensor
    plain = tensor.view(_INTEGERS[tensor.element_size()]).to(torch.int64)
    return torch.where(tensor.double().isnan(), -1, plain)
