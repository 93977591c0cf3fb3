"""PyTorch's stock wheel computes eagerly under ``tessera run``.

Skipped where it is not installed (``support.processes.torch_program``).
"""

import pytest

from support.processes.torch_program import run_program

_PROGRAM = """
import torch
print((torch.ones(3, device="cuda") + 1).tolist())
x = torch.randn(5, 4, requires_grad=True, device="cuda")
(x.softmax(-1) * torch.arange(4, device="cuda")).sum().backward()
y = x.detach().cpu().requires_grad_()
(y.softmax(-1) * torch.arange(4)).sum().backward()
print(torch.allclose(x.grad.cpu(), y.grad, atol=1e-5))
y, zero = torch.ones(2, device="cuda"), torch.tensor([0], device="cuda")
torch.use_deterministic_algorithms(True)
try:
    y.put_(zero, y[:1] * 7)
except RuntimeError as error:
    print(str(error)[:43])
bag = torch.nn.EmbeddingBag(4, 3, mode="max").cuda()
try:
    bag(torch.zeros(2, 3, dtype=torch.int64, device="cuda")).sum().backward()
except RuntimeError as error:
    print(str(error)[:32])
index, given = torch.randint(99, (20000,), device="cuda"), torch.randn(20000, device="cuda") * 1e6
sums = [torch.zeros(99, device="cuda").scatter_add_(0, index, given) for _ in range(4)]
sums += [torch.zeros(99, device="cuda").index_add_(0, index, given) for _ in range(4)]
sums += [torch.zeros(2, 99, device="cuda").index_add(1, index, given.expand(2, -1), alpha=1)[1]]
print(all(torch.equal(one, sums[0]) for one in sums))
print(torch.equal(sums[0].cpu(), torch.zeros(99).index_add_(0, index.cpu(), given.cpu())))
half = torch.ones((), device="cuda").index_add(0, index[0] * 0, given[0] * 0 + 1, alpha=-0.5)
print(half.item(), torch.index_add(half.view(1), 0, index[:1] * 0, half.view(1), out=half[None]))
torch.use_deterministic_algorithms(True, warn_only=True)
print(y.put_(zero, y[:1] * 7).tolist())
try:
    torch.linalg.ldl_factor(torch.eye(3, dtype=torch.complex64, device="cuda"))
except NotImplementedError as error:
    print("refused" if "aten::linalg_ldl_factor_ex" in str(error) else error)
try:
    torch.sort(torch.ones(3, dtype=torch.complex64, device="cuda"))
    print("sorted")
except TypeError:
    pass
x, one = torch.ones(16, 16, device="cuda").to(torch.float8_e4m3fn), torch.ones((), device="cuda")
product = torch._scaled_mm(x, x.t(), one, one * 0.5, out_dtype=torch.bfloat16)
print(product.dtype, product.shape, product.float().cpu().unique().tolist())
"""
_TWO_DEVICES = """
import torch
from torch import nn
assert torch.cuda.device_count() == 2 and torch.cuda.can_device_access_peer(0, 1)
x = torch.arange(6.0).view(2, 3)
first = x.to("cuda:0")
for view in (first, first.t(), first[:, ::2], first[:1].expand(4, 3), first.t().to(torch.float64)):
    moved = view.to("cuda:1")
    assert moved.device.index == 1 and torch.equal(moved.cpu(), view.cpu())
z = torch.zeros(3, 4, device="cuda:1")
z[:, 1:3].copy_(first.t())
assert torch.equal(z.cpu()[:, 1:3], x.t()) and z[:, ::3].sum() == 0
pairs = torch.randn(3, 2, dtype=torch.complex64)
assert torch.equal(pairs.to("cuda:0").mT.conj().to("cuda:1").cpu(), pairs.mT.conj().resolve_conj())
for i in range(5):
    for d in ("cuda:0", "cuda:1"):
        result = ((x.to(d) + i) * 3).sum(0)
        assert result.device == torch.device(d) and torch.equal(result.cpu(), ((x + i) * 3).sum(0))
streams = [torch.cuda.Stream(d) for d in ("cuda:0", "cuda:1")]
with torch.cuda.stream(streams[1]):
    y = torch.ones(1000, device="cuda:1") * 2
streams[0].wait_stream(streams[1])
with torch.cuda.stream(streams[0]):
    assert (y.to("cuda:0", non_blocking=True) + 1).sum().item() == 3000
try:
    x.to("cuda:0") + x.to("cuda:1")
except RuntimeError as error:
    assert "same device" in str(error), error
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
given = torch.randn(6, 3)
model(given).sum().backward()
wanted = [one.grad.clone() for one in model.parameters()]
model.zero_grad()
result = nn.DataParallel(model.cuda())(given.cuda())
result.sum().backward()
for one, other in zip(model.parameters(), wanted, strict=True):
    torch.testing.assert_close(one.grad.cpu(), other)
print("equal")
"""
# Each function is called often enough that its launches are repeated, with other tensors and numbers.
_REPEATED = """
import gc, torch
from types import FunctionType
from tessera_torch.operator import Operator

ROUNDS = 6
def move(one):
    return one.cuda() if isinstance(one, torch.Tensor) else one

def compare(compute, *shapes):
    for i in range(ROUNDS):
        torch.manual_seed(i)
        given = [torch.randn(shape) for shape in shapes]
        moved = [move(one) for one in given]
        expected, actual = (compute(i / 7, *ones) for ones in (given, moved))
        for one, other in zip([*expected, *given], [*actual, *moved], strict=True):
            torch.testing.assert_close(other.cpu(), one, rtol=1e-4, atol=1e-4)
            assert one.stride() == other.stride(), (one.stride(), other.stride())

F = torch.nn.functional
S = (5, 7)
compare(lambda k, x, y: (x + y, x + x, x.t() + y.t(), x + y[:1], x[:, 1:] * y[:, 1:]), S, S)
compare(lambda k, x, y: (torch.add(x, y, alpha=k), x * k, x / (k + 1), x - k, k - x), S, S)
compare(lambda k, x, y: (x.add_(y, alpha=k), y.mul_(k), torch.add(x, y, out=torch.empty_like(x))), S, S)
compare(lambda k, x, y: (torch.addcmul(x, x, y, value=k), torch.lerp(x, y, k), x ** 2, x.clamp(-k, k)), S, S)
compare(lambda k, x: (x.sum(), x.mean(1, keepdim=True), *x.max(1), x.softmax(-1), *torch.var_mean(x, 0)), S)
compare(lambda k, x, y: (torch.cat((x, y)), torch.cat((x, y), 1), torch.stack((x, x)), x.where(x > k, y)), S, S)
compare(lambda k, x: (F.layer_norm(x, (7,)), F.gelu(x), x.to(torch.float64), x.long(), x.t().contiguous()), S)
for i in range(ROUNDS):
    x = torch.arange(10.0, device="cuda")
    x[:5] += x[5:]
    assert x[:5].tolist() == [5, 7, 9, 11, 13], x
    try:
        x[:5].add_(x[1:6])
    except RuntimeError as error:
        assert "single memory location" in str(error), error
    else:
        raise AssertionError("an overlap is not detected")
    for size in (0, 10):
        out = torch.empty(size, device="cuda")
        assert torch.add(x, i, out=out).tolist() == [value + i for value in x.tolist()]
        assert out.shape == x.shape
    assert torch.full((2,), float(i), device="cuda").tolist() == [i, i]
    with torch.cuda.stream(torch.cuda.Stream()):
        assert (x * 2).sum().item() == 2 * x.cpu().sum().item()
y, graph = torch.ones(10, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    z = x + y
y.fill_(5)
graph.replay()
assert torch.equal(z, x + 5)
from tessera_torch.replay import plan
used = []
def launch(one, other, stream):
    used.append(torch.cuda.memory_allocated() - before >> 20)
stages = [x, *(torch.empty(1) for _ in range(4))]  # each is computed of the one before
events = []
for one, other in zip(stages, stages[1:]):
    events.append(plan.Allocation(other, ((1 << 18,), (1,), x.dtype)))
    events.append(plan.Launch(launch, (one, other)))
again = plan.make(events, [x], [], stages[-1], [])
before = torch.cuda.memory_allocated()
assert again([x], []).shape == (1 << 18,)
assert used == [1, 2, 2, 2], used
kept = [one._repeated.values() for one in gc.get_objects() if type(one) is Operator]
print(sum(isinstance(one, FunctionType) for ones in kept for one in ones) > 30)
"""
# What kernels for GPUs compute; those of the CPU differ in some of these lines, or fail.
_AS_ON_A_GPU = """
import torch

def T(*given, **keywords):
    return torch.tensor(*given, device="cuda", **keywords)

torch.manual_seed(1)
x, single = torch.randn(4096).bfloat16(), torch.tensor(0.1)
expected = ((torch.round(x.float() * (1 / single)) + 3).clamp(-20, 20) - 3) * single
assert torch.fake_quantize_per_tensor_affine(x.cuda(), 0.1, 3, -20, 20).cpu().equal(expected.bfloat16())
halves, ones = T([[0.5, 1.5]]), torch.ones(2, device="cuda")
assert torch.fake_quantize_per_tensor_affine(halves, 1.0, 1, -20, 20).tolist() == [[0, 2]]
assert torch.fake_quantize_per_channel_affine(halves, ones, ones.int(), 1, -20, 20).tolist() == [[1, 1]]
found = torch._fake_quantize_learnable_per_channel_affine(halves, ones, ones, 1, -20, 20, 1.0)
assert found.tolist() == [[1, 1]]

one, scale, zero = T([1]), T([1.0]), T([0], dtype=torch.int32)
limits, rest = (T(float("inf")), T(-float("inf"))), (0.01, 0, 255, 0)
torch.fused_moving_avg_obs_fake_quant(T([-1.0, 1.0]), one, one, *limits, scale, zero, *rest)
assert zero.tolist() == [127], zero

def gradients(device):
    given = [torch.tensor([value], device=device, requires_grad=True) for value in (8.0, 1.0, 2.5)]
    torch._fake_quantize_learnable_per_tensor_affine(*given, 0, 10, 1.0).backward()
    return [one.grad.tolist() for one in given]
assert gradients("cuda") == gradients("cpu") == [[0.0], [7.0], [-1.0]], gradients("cuda")

small, wide = T([0.05]), T([0.1], dtype=torch.float64)
assert torch.quantize_per_tensor(small, 0.1, 0, torch.qint8).int_repr().tolist() == [1]
for steps, expected in ((wide, [1]), (wide.float(), [0])):
    found = torch.quantize_per_channel(small, steps, T([0]), 0, torch.qint8)
    assert found.int_repr().tolist() == expected, found

found = torch.special.hermite_polynomial_h(0.1, T([2.0], dtype=torch.float64)).item()
assert abs(found + 1.96) < 1e-14, found
for diagonal, pivots in ((torch.eye(1), [-1]), (torch.eye(3), [1, 2, -3])):  # no row is behind the last
    found = torch.linalg.ldl_solve(2 * diagonal.cuda(), T(pivots, dtype=torch.int32), ones[:1].expand(len(pivots), 1))
    assert found.tolist() == [[0.5]] * len(pivots), found
try:
    torch.linalg.solve(torch.eye(2, device="cuda"), torch.ones(2, 1))
except RuntimeError as error:
    assert "same device" in str(error), error
else:
    raise AssertionError("a tensor of the CPU is taken")
print("equal")
"""
_SLEEPS = """
import torch
torch.cuda._sleep(10)
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
start.record()
torch.cuda._sleep(40_000_000)
end.record()
torch.cuda.synchronize()
assert start.elapsed_time(end) >= 20, start.elapsed_time(end)
for batch, last, text in ((1, 2, "same batch size"), (4, 3, "size 2 in last dimension")):
    grid = torch.zeros(batch, 6, 4, last, device="cuda")
    try:
        torch.grid_sampler_2d(torch.zeros(4, 1, 3, 3, device="cuda"), grid, 0, 0, False)
    except RuntimeError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
print("slept")
"""
_FIRST_KERNEL = """
import torch
torch.ones(3, 4, device="cuda").softmax(-1)
from torch._inductor.fx_passes import post_grad
from torch._inductor.kernel import mm
from triton.runtime import cache
print("wheel" in cache.triton_key(), mm.mm_template.template._made)
print(post_grad.lazy_init.cache_info().misses)
"""
# TorchScript records a convolution by an operator of its own, and copies while it records.
_RECORDED = """
import io, torch
from torch import nn
class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3)
    def forward(self, x):
        y = torch.zeros_like(x)
        y[1:] = x[:-1].double()
        return self.layer(y)
model, x, other = Shifted().cuda(), torch.randn(2, 2, 5, 5).cuda(), torch.randn(3, 2, 6, 6).cuda()
file = io.BytesIO()
torch.jit.save(torch.jit.trace(model, x), file)
file.seek(0)
recorded = torch.jit.load(file)
print(torch.equal(recorded(other), model(other)))
recorded(other).sum().backward()
model(other).sum().backward()
gradients = zip(recorded.parameters(), model.parameters())
print(all(torch.allclose(one.grad, same.grad) for one, same in gradients))
"""
# A compiled program checks the strides of results of operators that it does not compile.
_CHANNELS_LAST = """
import torch
from torch import nn
torch.manual_seed(0)
layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 2, 2)
model = nn.Sequential(*layers).to("cuda", memory_format=torch.channels_last)
def gradients(function):
    x = torch.arange(72.0, device="cuda").sin().view(2, 1, 6, 6)
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    y = function(x)
    found = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    return [y, *found]
plain, compiled = gradients(model), gradients(torch.compile(model))
for one, same in zip(plain, compiled):
    torch.testing.assert_close(one, same)
print(plain[0].is_contiguous(memory_format=torch.channels_last))
"""
# Kernels of eager operators are not among those that Inductor counts and shows of the program.
_UNCOUNTED = """
import torch
from torch._dynamo.utils import counters
from torch._inductor import metrics
from torch._inductor.utils import run_and_get_code
layer = torch.nn.Linear(8, 8).cuda()
compiled = torch.compile(lambda x: layer(x).sin() * 2)
def step():
    x = torch.arange(24.0, device="cuda").view(3, 8).add(7).cos()
    compiled(x).square().sum().backward()
metrics.reset()
counters.clear()
_, codes = run_and_get_code(step)
kernels = sum(code.count("def triton_") for code in codes)
print(len(codes), metrics.generated_kernel_count == kernels > 0)
before = counters["inductor"].copy()
torch.arange(24.0, device="cuda").view(2, 3, 4).exp().prod(0)
print(metrics.generated_kernel_count == kernels, counters["inductor"] == before)
"""


@pytest.mark.slow
def test_the_wheel_computes_eagerly() -> None:
    lines = run_program(_PROGRAM).split("\n")
    assert lines[:2] == ["[2.0, 2.0, 2.0]", "True"]
    assert lines[2] == "put_ does not have a deterministic implemen"
    assert lines[3:6] == ["embedding_bag_backward_cuda_max ", "True", "True"]
    assert lines[6:8] == ["0.5 tensor([1.], device='cuda:0')", "[7.0, 1.0]"]
    assert lines[8:10] == ["refused", "torch.bfloat16 torch.Size([16, 16]) [8.0]"]


@pytest.mark.slow
def test_checks_of_indices_can_be_switched_off() -> None:
    program = (
        'import torch; x = torch.arange(8.0, device="cuda");'
        'print(x[:4].take(torch.tensor([5], device="cuda")).item())'
    )
    assert run_program(program, TESSERA_TORCH_CHECK_INDICES="0") == "5.0\n"


@pytest.mark.slow
def test_repeated_calls_compute_with_their_own_tensors_and_numbers() -> None:
    assert run_program(_REPEATED) == "True\n"


@pytest.mark.slow
def test_numbers_are_those_of_a_gpu_where_the_cpu_differs() -> None:
    assert run_program(_AS_ON_A_GPU) == "equal\n"


def test_two_devices_exchange_tensors() -> None:
    assert run_program(_TWO_DEVICES, devices=2) == "equal\n"


@pytest.mark.slow
def test_the_first_kernel_of_a_process_prepares_only_what_it_needs() -> None:
    lines = run_program(_FIRST_KERNEL, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1").splitlines()
    assert lines == ["True None", "0"]


@pytest.mark.slow
def test_a_stream_sleeps_and_a_grid_of_other_sizes_is_an_error() -> None:
    assert run_program(_SLEEPS) == "slept\n"


@pytest.mark.slow
def test_a_recorded_program_convolves_and_copies() -> None:
    assert run_program(_RECORDED) == "True\nTrue\n"


@pytest.mark.slow
def test_a_compiled_program_convolves_in_channels_last() -> None:
    assert run_program(_CHANNELS_LAST) == "True\n"


@pytest.mark.slow
def test_kernels_of_eager_operators_are_not_counted_as_the_programs() -> None:
    assert run_program(_UNCOUNTED) == "2 True\nTrue True\n"
