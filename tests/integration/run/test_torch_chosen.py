"""Attention by a kernel that a program chooses, and sparse operators, agree with the CPU.

Skipped where PyTorch is not installed (``support.processes.torch_program``).
"""

import pytest

from support.processes.torch_program import run_program

_ATTENTION = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attend
torch.manual_seed(0)
given = [torch.randn(2, 4, 12, 16), torch.randn(2, 2, 12, 16), torch.randn(2, 2, 12, 16)]

def compute(device, dtype, **options):
    leaves = [x.detach().clone().to(device, dtype).requires_grad_() for x in given]
    result = attend(*leaves, enable_gqa=True, **options)
    result.float().square().sum().backward()
    return [result, *(x.grad for x in leaves)]

whole = given[1:]
given[1:] = [x.repeat_interleave(2, 1) for x in whole]
backends = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
for backend in (*backends, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
    for options in ({}, {"is_causal": True}, {"scale": 0.3}):
        with sdpa_kernel(backend):
            results = compute("cuda", torch.float16, **options)
        for got, want in zip(results, compute("cpu", torch.float32, **options), strict=True):
            torch.testing.assert_close(got.float().cpu(), want, atol=3e-2, rtol=3e-2)
given[1:] = whole
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    results = compute("cuda", torch.bfloat16)
for got, want in zip(results, compute("cpu", torch.float32), strict=True):
    torch.testing.assert_close(got.float().cpu(), want, atol=2e-1, rtol=5e-2)
query = torch.ones(1, 2, 64, 64, device="cuda", dtype=torch.float16)
value = torch.eye(64, device="cuda", dtype=torch.float16).expand_as(query).clone().requires_grad_()
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    one, other = (attend(query, query, value, dropout_p=0.5) for _ in range(2))
assert 0.4 < (one == 0).float().mean() < 0.6 and not torch.equal(one, other)
(gradient,) = torch.autograd.grad(one.sum(), value)  # the same elements are dropped
torch.testing.assert_close(gradient[..., 0].float(), one.float().sum(-2), atol=5e-2, rtol=5e-2)
try:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        attend(*[torch.ones(1, 1, 4, 8, device="cuda")] * 3)  # float32
except RuntimeError as error:
    print("No available kernel" in str(error))
"""
_SPARSE = """
import torch
torch.manual_seed(0)
first = torch.randn(6, 8) * (torch.rand(6, 8) > 0.5)
second = torch.randn(8, 6) * (torch.rand(8, 6) > 0.5)
dense = torch.randn(8, 5)
index = torch.tensor([4, 1, 4])

def compute(device):
    a, b, d = first.to(device), second.to(device), dense.to(device)
    rows, blocks = a.to_sparse_csr(), a.to_sparse_bsr((3, 2)) if device == "cuda" else a
    columns = a.to_sparse_bsc((3, 2)) if device == "cuda" else a
    return (
        rows.sum(0, keepdim=True), rows.sum(1, keepdim=True), d.t() @ b.t().contiguous().to_sparse().t(),
        torch.sparse.mm(rows, b.to_sparse_csr()), rows.to_sparse_csc(), a.to_sparse_csc().to_sparse_csr(),
        a.to_sparse_csc() @ b.to_sparse_csc(), blocks @ d, columns @ d,
        torch.nn.functional.linear(d.t(), blocks), a.to_sparse().index_select(0, index.to(device)),
        a.to_sparse().index_select(1, index.to(device)),
    )

for got, want in zip(compute("cuda"), compute("cpu"), strict=True):
    assert got.layout == want.layout, (got.layout, want.layout)
    got, want = (x if x.layout == torch.strided else x.to_dense() for x in (got, want))
    torch.testing.assert_close(got.cpu(), want)
image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
for got, want in zip(image.cuda().sort(1), image.sort(1), strict=True):
    assert torch.equal(got.cpu(), want) and got.stride() == want.stride()
print("agree")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_program_chooses_the_kernel_of_attention() -> None:
    assert run_program(_ATTENTION) == "True\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sparse_operators_and_layouts_of_sorted_images_agree_with_the_cpu() -> None:
    assert run_program(_SPARSE) == "agree\n"


# Dynamo runs an LSTM as it is, and must not look into the operators' own functions.
_COMPILED_IN_PART = """
import torch
from torch import nn
torch.manual_seed(0)
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 8), nn.Linear(8, 3)
    def forward(self, x):
        return self.head(self.lstm(x)[0]).tanh().sum()
model, x = Tagger().cuda(), torch.randn(5, 2, 4, device="cuda")
compiled = torch.compile(model)
for _ in range(6):
    wanted, found = model(x), compiled(x)
    gradients = [torch.autograd.grad(one, list(model.parameters())) for one in (wanted, found)]
    torch.testing.assert_close((found, *gradients[1]), (wanted, *gradients[0]))
print("equal")
"""


@pytest.mark.slow
def test_a_program_that_is_compiled_in_part_computes() -> None:
    assert run_program(_COMPILED_IN_PART) == "equal\n"
