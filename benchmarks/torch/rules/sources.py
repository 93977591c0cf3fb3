"""Names of the files in which the rules were read.

PyTorch's headers are those of the wheel 2.15.0. Its CUDA sources are not in a wheel: they were read
in PyTorch's public repository, in the newest stored version of each file. A rule that a later
release changes shows as a disagreement with the CPU's result, too.
"""

HEADERS = "torch/include"


def cuda(file: str, function: str) -> str:
    """Name a function of PyTorch's CUDA kernels."""
    return f"aten/src/ATen/native/cuda/{file}: {function}"


def native(file: str, function: str) -> str:
    """Name a function of PyTorch's operators that all devices share."""
    return f"aten/src/ATen/native/{file}: {function}"


def header(file: str, function: str) -> str:
    """Name a function in a header of the wheel."""
    return f"{HEADERS}/{file}: {function}"


def page(address: str) -> str:
    """Name a page of PyTorch's documentation."""
    return f"https://docs.pytorch.org/docs/stable/{address}"


def cite_page(function: str) -> str:
    """Name a function's text in PyTorch's documentation, which the wheel has, too."""
    return f"{page(f'generated/torch.{function}.html')} (torch/_torch_docs.py: {function})"


def op_info(operator: str, source: str) -> str:
    """Add the types that PyTorch's own tests have for an operator on CUDA, in the wheel."""
    file = "torch/testing/_internal/common_methods_invocations.py"
    return f"{source}; {file}: dtypesIfCUDA of {operator}"
