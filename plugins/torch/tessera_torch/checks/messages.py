"""The words of PyTorch's operators for errors that its shape functions word in another way."""

import re
from collections.abc import Callable
from typing import Any, Final

import torch

TITLES: Final = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
    torch.float8_e4m3fn: "Float8_e4m3fn",
    torch.float8_e5m2: "Float8_e5m2",
    torch.float8_e4m3fnuz: "Float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "Float8_e5m2fnuz",
    torch.float8_e8m0fnu: "Float8_e8m0fnu",
}
_SIZE: Final = re.compile(r"torch\.Size\((\[[^\]]*\])\)")
_BROADCAST: Final = re.compile(
    r"Attempting to broadcast a dimension of length (\d+) at -(\d+)!.* had (\[[\d, ]*\]);"
    r" but expected shape should be broadcastable to (\[[\d, ]*\])",
    re.DOTALL,
)
_TARGET: Final = re.compile(r"(output with shape .* match the broadcast shape) \(([\d, ]*?),?\)")
_CAT: Final = re.compile(
    r"(Sizes of tensors must match except in dimension \d+\.) Expected (\d+) in dimension \d+ but"
    r" got (\d+) for tensor number (\d+) in the list\.?"
)
_FOUND: Final = re.compile(r"Got: torch\.(\w+)")
_COUNT: Final = re.compile(
    r"^(Number of indices \(\d+\) should be equal to )tensor\.size\(dim\) (\(\d+\)), for dim=(\d+)"
)
_NORM: Final = re.compile(
    r"(Given normalized_shape=\[.*\], expected input with shape )\[(.*)\](, but got input of size) "
)


def title(dtype: Any) -> str:
    """Return PyTorch's C++ name of a type."""
    return TITLES.get(dtype, str(dtype).removeprefix("torch.").capitalize())


def check_cast(dtype: Any, target: Any) -> None:
    """Raise RuntimeError if a result of one type cannot be written to a tensor of the other."""
    if not torch.can_cast(dtype, target):
        raise RuntimeError(
            f"result type {title(dtype)} can't be cast to the desired output type {title(target)}"
        )


def reword(text: str) -> str:
    """Return a shape function's text in the words of PyTorch's operators."""
    text = _SIZE.sub(r"\1", text)
    for pattern, replace in _RULES:
        text = pattern.sub(replace, text)
    return text


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the common shape of tensors. Raises RuntimeError in the words of operators."""
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError as err:
        raise RuntimeError(reword(str(err))) from None


def name_types(text: str) -> str:
    """Return a text with PyTorch's C++ names of types with fractions, as its operators have."""
    for dtype, cpp_name in TITLES.items():
        if dtype.is_floating_point or dtype.is_complex:
            text = re.sub(rf"{re.escape(str(dtype))}\b", cpp_name, text)
    return text


def _broadcast(match: re.Match[str]) -> str:
    length, distance = int(match[1]), int(match[2])
    own, expected = (
        [int(n) for n in shape_text.strip("[]").split(",") if n.strip()]
        for shape_text in (match[3], match[4])
    )
    dimension = max(len(own), len(expected)) - distance
    return (
        f"The size of tensor a ({expected[-distance]}) must match the size of tensor b ({length})"
        f" at non-singleton dimension {dimension}"
    )


def _found(match: re.Match[str]) -> str:
    return f"Got: {title(getattr(torch, match[1]))}"


_RULES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_BROADCAST, _broadcast),
    (_TARGET, r"\1 [\2]"),
    (_CAT, r"\1 Expected size \2 but got size \3 for tensor number \4 in the list."),
    (_FOUND, _found),
    (_COUNT, r"index_add_(): \1source.size(dim): \2, for dim: \3"),
    (re.compile("^expected a matrix, but got tensor"), "trace: expected a matrix, but got tensor"),
    (_NORM, r"\1[*, \2]\3"),
)
