"""In which type PyTorch's CUDA kernels take the operands of element-wise operators; no torch here.

Type promotion gives all operands of an operator one common type. A kernel loads each tensor as
that type, so that a tensor without dimensions and one of integers are rounded to it. A number is
passed to a kernel on its own. Where the common type is a 16-bit float, most kernels take the number
in that type (``scalar_t`` in PyTorch's source), and some in the type in which they compute, float32
(``opmath_t`` or ``accscalar_t``). The second kind is listed here; all other numbers are rounded.
"""

from collections.abc import Mapping
from typing import Final

# Operator: numbers that reach CUDA's kernel in float32. The files are in
# aten/src/ATen/native/cuda of PyTorch's source.
_COMPUTING_TYPE: Final[Mapping[str, frozenset[str]]] = {
    "add": frozenset({"self", "other", "alpha"}),  # CUDALoops.cuh: opmath_gpu_kernel_with_scalars
    "sub": frozenset({"self", "other", "alpha"}),
    "rsub": frozenset({"self", "other", "alpha"}),
    "mul": frozenset({"self", "other"}),  # BinaryMulKernel.cu
    "div": frozenset({"other"}),  # BinaryDivTrueKernel.cu, BinaryDivTruncKernel.cu
    "floor_divide": frozenset({"other"}),  # BinaryDivFloorKernel.cu
    "lerp": frozenset({"weight"}),  # Lerp.cu
    "addcmul": frozenset({"value"}),  # PointwiseOpsKernel.cu
    "addcdiv": frozenset({"value"}),
    "clamp": frozenset({"min", "max"}),  # TensorCompare.cu
    "clamp_min": frozenset({"min"}),
    "clamp_max": frozenset({"max"}),
    "hardtanh": frozenset({"min_val", "max_val"}),
}

# Numbers that are no operands of type promotion, but that CUDA's kernel takes in the tensor's type.
_ROUNDED_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "pow": frozenset({"exponent"}),  # PowKernel.cu
    "threshold": frozenset({"threshold", "value"}),  # ActivationThresholdKernel.cu
    "threshold_backward": frozenset({"threshold"}),
    "hardshrink": frozenset({"lambd"}),  # ActivationHardshrinkKernel.cu
    "softshrink": frozenset({"lambd"}),  # ActivationSoftshrinkKernel.cu
    "hardshrink_backward": frozenset({"lambd"}),
    "softshrink_backward": frozenset({"lambd"}),
    "smooth_l1_loss": frozenset({"beta"}),  # BinaryMiscOpsKernels.cu
    "huber_loss": frozenset({"delta"}),
    "smooth_l1_loss_backward": frozenset({"beta"}),  # PointwiseOpsKernel.cu
    "huber_loss_backward": frozenset({"delta"}),
}

# Operators whose kernels only move or convert elements, or that take integers beside floats.
_NOT_PROMOTED: Final = frozenset(
    {
        "copy",
        "_to_copy",
        "clone",
        "fill",
        "masked_fill",
        "where",
        "ldexp",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        "polygamma",
        "fake_quantize_per_tensor_affine_cachemask",
        "fake_quantize_per_channel_affine_cachemask",
    }
)

# Operators that are compiled as a whole, but whose operands CUDA's loops take.
ALSO_PROMOTED: Final = frozenset({"isin", "floor_divide"})

# Element-wise operators that write into tensors of exactly one type: PyTorch's build_unary_op of
# TensorIterator.cpp and other loops that check for equal types. Its CPU operators were probed.
OF_ONE_TYPE: Final = frozenset(
    {
        "abs",
        "ceil",
        "floor",
        "round",
        "trunc",
        "frac",
        "neg",
        "sgn",
        "sign",
        "bitwise_not",
        "gelu",
        "elu",
        "celu",
        "hardshrink",
        "hardsigmoid",
        "hardtanh",
        "leaky_relu",
        "mish",
        "relu",
        "silu",
        "softplus",
        "softshrink",
        "nan_to_num",
        "lerp",
        "isposinf",
        "isneginf",
        "signbit",
        "heaviside",
    }
)

# Operators that PyTorch computes for 8-bit floats on a GPU (CompareEQKernel.cu, Copy.cu,
# TensorCompare.cu, FillKernel.cu, and masked_fill of IndexKernel.cu).
OF_8_BIT_FLOATS: Final = frozenset(
    {"eq", "ne", "copy", "_to_copy", "clone", "where", "masked_fill", "fill", "isnan"}
)

# Other operators for these types: they only move elements, and take no number as an element.
MOVES: Final = frozenset(
    {
        "cat",
        "index",
        "index_select",
        "gather",
        "flip",
        "roll",
        "rot90",
        "masked_select",
        "take",
        "repeat",
        "tril",
        "triu",
        "slice_scatter",
        "select_scatter",
        "index_copy",
        "repeat_interleave",
        "split_with_sizes_copy",
        "unfold_copy",
        "diag_embed",
        "expand_copy",
        "permute_copy",
        "view_copy",
        "_chunk_cat",
        "diagonal_copy",
        "channel_shuffle",
        "pixel_shuffle",
        "pixel_unshuffle",
        "masked_scatter",
    }
)


def has_promoted_operands(operator: str) -> bool:
    """Return whether a kernel loads its tensors in their common type."""
    return operator not in _NOT_PROMOTED


def rounds_number(operator: str, argument: str) -> bool:
    """Return whether a kernel takes a number that is an operand in the common type."""
    return argument not in _COMPUTING_TYPE.get(operator, frozenset())


def rounds_parameter(operator: str, argument: str) -> bool:
    """Return whether a kernel takes a number that is no operand in the tensors' type."""
    return argument in _ROUNDED_PARAMETERS.get(operator, frozenset())


def multiplies_by_reciprocal(rounding_mode: str | None) -> bool:
    """Return whether division by a number is multiplication with its reciprocal."""
    return rounding_mode in (None, "trunc")
