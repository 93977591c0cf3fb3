"""Random numbers of PyTorch, in eager calls and in CUDA graphs.

Skipped where PyTorch's wheel is not installed (``support.processes.torch_program``).
"""

import pytest

from support.processes.torch_program import run_program

_SAMPLED = """
import torch
torch.manual_seed(0)
one = torch.ones(20000, device="cuda")
def close(sample, mean, variance):
    found = sample.double().mean().item(), sample.double().var().item()
    assert abs(found[0] - mean) < 0.06 * mean and abs(found[1] - variance) < 0.1 * variance, found
for shape in (0.05, 1.0, 30.0):
    close(torch._standard_gamma(one * shape), shape, shape)
for rate in (0.5, 40.0, 1e6):
    close(torch.poisson((one * rate).double()), rate, rate)
for count, chance in ((10, 0.3), (1000, 0.99), (10**6, 0.3)):
    drawn = torch.binomial(one.double() * count, one.double() * chance)
    close(drawn, count * chance, count * chance * (1 - chance))
shares = torch.distributions.Dirichlet(torch.tensor([1.0, 3.0], device="cuda")).sample((20000,))
close(shares[:, 1], 0.75, 3 / 80)
shapes, places = torch.tensor([0.3, 2, 6, 15, 1e4]), torch.tensor([0.1, 1, 5, 20, 1.01e4])
wanted = torch._standard_gamma_grad(shapes, places)
found = torch._standard_gamma_grad(shapes.cuda(), places.cuda()).cpu()
torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
for fill in (torch.Tensor.uniform_, torch.Tensor.normal_):  # a gap has other memory, no other numbers
    torch.manual_seed(1)
    direct = fill(torch.empty(70001, dtype=torch.float64, device="cuda"))
    torch.manual_seed(1)
    assert torch.equal(fill(torch.empty(70001, 2, device="cuda").double()[:, 0]), direct)
pairs = torch.rand(20000, dtype=torch.complex64, device="cuda")
close(pairs.real, 1 / 2, 1 / 12), close(pairs.imag, 1 / 2, 1 / 12)
try:
    torch.randn(3, device="cuda", generator=torch.Generator())
    raise AssertionError("numbers of the CPU's generator")
except RuntimeError as error:
    assert "'cuda' device type for generator" in str(error), error
held = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
drawn = torch.rand(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda")
assert torch.cuda.max_memory_allocated() - held == 2 << 22
print("sampled")
"""
_CAPTURED = """
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
attend = torch.nn.functional.scaled_dot_product_attention
def draw(a):
    drawn = [getattr(a.clone(), name)() for name in ("uniform_", "normal_", "exponential_", "random_")]
    drawn += [torch.nn.functional.dropout(a, 0.3), torch.bernoulli(a), torch.normal(a, 2.0)]
    drawn += [torch.poisson(a * 20), torch.binomial((a * 50).floor(), a), torch._standard_gamma(a)]
    for kind in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(kind):
            query = a[:512].detach().half().view(1, 1, 16, 32).requires_grad_()
            output = attend(query, query, query, dropout_p=0.25)
            drawn += [output, *torch.autograd.grad(output.sum(), query)]
    drawn = [one.detach().flatten() for one in drawn]
    return torch.cat((*drawn, torch.rand(5, dtype=torch.float64, device="cuda")))
a = torch.rand(1000, device="cuda")
draw(a)
wanted = {}
for seed in (5, 77):
    torch.cuda.manual_seed(seed)
    wanted[seed] = [draw(a) for _ in range(3)]
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    first, second = draw(a), draw(a)
for seed, (one, two, three) in wanted.items():
    torch.cuda.manual_seed(seed)
    graph.replay()
    assert torch.equal(first, one) and torch.equal(second, two), seed
    assert torch.equal(draw(a), three), seed
print("equal")
"""
_CAPTURED_OPTIMIZERS = """
import torch
from torch import optim
def descend(kind, choice, captured, scaled):
    torch.manual_seed(3)
    p = torch.randn(2, 3, device="cuda")
    gradients = torch.randn(4, 2, 3, device="cuda")
    optimizer = kind([p], fused=True, **choice)
    infinite = torch.zeros((), device="cuda")
    if scaled:
        optimizer.grad_scale, optimizer.found_inf = torch.full_like(infinite, 4.0), infinite
    p.grad = gradients[0].clone()
    optimizer.step()
    step = optimizer.step
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            optimizer.step()
        step = graph.replay
    for i in range(1, 4):
        p.grad.copy_(gradients[i])
        infinite.fill_(1.0 if i == 2 else 0.0)
        step()
    return torch.stack((p, p.grad)).cpu()
rate = torch.tensor(0.1, device="cuda")
for scaled in (False, True):
    for kind, choice in (
        (optim.Adam, dict(capturable=True)), (optim.AdamW, dict(capturable=True, amsgrad=True, lr=rate)),
        (optim.SGD, dict(momentum=0.5)), (optim.Adagrad, dict(lr_decay=0.1)),
    ):
        eager, captured = (descend(kind, choice, one, scaled) for one in (False, True))
        torch.testing.assert_close(captured, eager)
print("equal")
"""
# The expected numbers are differences of scipy's betaincinv at the distribution's value.
_DIRICHLET = """
import torch
T = lambda *numbers: torch.tensor(numbers, dtype=torch.float64, device="cuda")
a, b = T(1, 2, 0.5, 0.1, 50, 1e4), T(1, 3, 0.5, 5, 70, 1e4)
x = T(0.3, 0.9, 0.01, 0.2, 0.4, 0.51)
expected = T(0.515988344715, 0.344507569444, 0.105034070449, 1.47045887680, 8.21423495232e-3, 5.04983870253e-5)
found = torch._dirichlet_grad(x, a, a + b)
assert torch.allclose(found, expected, rtol=1e-9, atol=0), found
assert torch._dirichlet_grad(T(1.0), T(2.0), T(2.0)).tolist() == [0.0]
print("exact")
"""


@pytest.mark.slow
def test_samples_have_their_distributions() -> None:
    assert run_program(_SAMPLED) == "sampled\n"


@pytest.mark.slow
def test_graphs_draw_the_numbers_that_eager_calls_draw() -> None:
    assert run_program(_CAPTURED) == "equal\n"


@pytest.mark.slow
def test_graphs_take_the_steps_of_fused_optimizers() -> None:
    assert run_program(_CAPTURED_OPTIMIZERS) == "equal\n"


@pytest.mark.slow
def test_gradients_of_samples_of_dirichlet_are_exact() -> None:
    assert run_program(_DIRICHLET) == "exact\n"
