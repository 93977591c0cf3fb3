"""Which overloads get kernels of this package."""

import warnings
from typing import Any, Final

import torch

from tessera_torch import counts, formats, native, sharing
from tessera_torch.caches import startup
from tessera_torch.checks.bounds import with_checks
from tessera_torch.checks.classes import with_bytes
from tessera_torch.checks.conditions import with_conditions, with_wide_floats
from tessera_torch.complexes.elementwise import conjugate
from tessera_torch.nesting import hide_from_dynamo
from tessera_torch.operands.out_types import with_out_types
from tessera_torch.operator import Operator, overload
from tessera_torch.own.determinism import with_alerts, with_order
from tessera_torch.own.guard import Guarded, with_refusals
from tessera_torch.own.integer_powers import with_integers
from tessera_torch.vision.averages import with_large_windows

# These start no kernel, or end in operators that have one here.
_KEPT: Final = frozenset(
    {
        "empty.memory_format",
        "empty_strided",
        "as_strided",
        "view",
        "set_",
        "resize_",
        "set_.source_Storage",
        "set_.source_Storage_storage_offset",
        "set_.source_Tensor",
        "record_stream",
        "is_set_to",
        "_local_scalar_dense",
        "is_pinned",
        "_pin_memory",
        "unfold",
        "_reshape_alias",
        "view_as_real",
        "view_as_complex",
        "_efficientzerotensor",
        "_cudnn_init_dropout_state",
        "_resize_output_",
        "resize_as_",
        "lift_fresh",
        "item",
        "_storage_Use_Count",
        "alias",
    }
)
# PyTorch's own kernels of these call cuBLAS, which Tessera computes.
_PRODUCTS: Final = frozenset(
    {
        *native.PRODUCTS,
        "_addmm_activation",
        "_addmm_activation.out",
    }
)
_ALIASES: Final = ("index_put", "index_put_")  # end in _index_put_impl_
_NOT_OURS: Final = ("cudnn", "sparse", "miopen", "nested", "quantize", "mkldnn", "_cuda_getCurrent")
_TENSOR: Final = "Tensor"


def register() -> tuple[Any, int]:
    """Register all kernels; return the library, which must be kept, and their number."""
    from tessera_torch import devices
    from tessera_torch.attention import backends
    from tessera_torch.linalg import table as linalg_table
    from tessera_torch.own import table
    from tessera_torch.sparse import arithmetic, coordinates, rows, softmax, validation
    from tessera_torch.special import (
        grouped_products,
        quantization,
        ragged_batches,
        scaled_products,
        sleeping,
        table as special_table,
    )
    from tessera_torch.transforms import fft

    devices.avoid_nccl()
    startup.use_key_of_wheel()
    sleeping.replace()
    formats.inform_compilers()
    native.remember()
    library = torch.library.Library("aten", "IMPL")
    plain = {**table.kernels(), **special_table.kernels()}
    own = {name: with_refusals(name, kernel) for name, kernel in plain.items()}
    by_hand = linalg_table.kernels(), fft.KERNELS, backends.KERNELS
    of_products = grouped_products.KERNELS, scaled_products.KERNELS
    for guarded in (*by_hand, *of_products):
        own |= {name: Guarded(name, kernel) for name, kernel in guarded.items()}
    own[sharing.NAME] = sharing.lazy_clone
    own["conj_physical_"] = _conjugate_in_place  # PyTorch has none for CUDA to replace
    own |= {
        **coordinates.DENSE_KERNELS,
        **ragged_batches.DENSE_KERNELS,
        **rows.DENSE_KERNELS,
        **validation.DENSE_KERNELS,
    }
    names = frozenset(name.partition(".")[0] for name in (*own, *_PRODUCTS, *_ALIASES))
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of each kernel that is replaced
        for full in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
            space, _, name = full.partition("::")
            if space != "aten" or name in own or not _is_ours(name):
                continue
            operator = with_bytes(name, with_order(name, Operator(name, names)))
            operator = with_large_windows(name, overload(name), operator)
            operator = with_conditions(name, overload(name), operator)
            operator = with_wide_floats(name, overload(name), operator)
            operator = with_checks(name, overload(name), with_integers(name, operator))
            operator = with_out_types(name, overload(name), operator)
            operator = hide_from_dynamo(with_alerts(name, overload(name), operator))
            library.impl(name, operator, "CUDA")
            count += 1
        for name, kernel in own.items():
            kernel = with_wide_floats(name, overload(name), kernel)
            kernel = with_out_types(name, overload(name), kernel)
            kernel = hide_from_dynamo(with_alerts(name, overload(name), kernel))
            library.impl(name, kernel, "CUDA")
            count += 1
        sparse = {**coordinates.KERNELS, **arithmetic.KERNELS, **softmax.KERNELS}
        layouts = {
            "SparseCUDA": sparse,
            "SparseCsrCUDA": rows.KERNELS,
            "QuantizedCUDA": {**quantization.refusals(), **quantization.QUANTIZED_KERNELS},
            "NestedTensorCUDA": ragged_batches.KERNELS,
        }
        for key, kernels in layouts.items():
            for name, kernel in kernels.items():
                library.impl(name, hide_from_dynamo(kernel), key)
                count += 1
    return library, count


def _conjugate_in_place(self: Any) -> Any:
    counts.CALLS["conj_physical_"] += 1
    return self.copy_(conjugate(self)) if self.is_complex() else self


def _is_ours(name: str) -> bool:
    if name in _KEPT or name in _PRODUCTS or any(word in name for word in _NOT_OURS):
        return False
    arguments = overload(name)._schema.arguments
    return any(_TENSOR in str(argument.type) for argument in arguments)
