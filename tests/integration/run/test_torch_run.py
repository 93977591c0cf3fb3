"""PyTorch's stock wheel computes eagerly under ``tessera run``; skipped where it is not installed.

TESSERA_TEST_TORCH_PYTHON names a Python with the wheel, also one with NVIDIA's libraries.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_VARIABLE = "TESSERA_TEST_TORCH_PYTHON"
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
print(all(torch.equal(one, sums[0]) for one in sums))
print(torch.equal(sums[0].cpu(), torch.zeros(99).index_add_(0, index.cpu(), given.cpu())))
torch.use_deterministic_algorithms(True, warn_only=True)
print(y.put_(zero, y[:1] * 7).tolist())
try:
    torch.linalg.ldl_factor(torch.eye(3, dtype=torch.complex64, device="cuda"))
except NotImplementedError as error:
    print("refused" if "aten::linalg_ldl_factor_ex" in str(error) else error)
x, one = torch.ones(16, 16, device="cuda").to(torch.float8_e4m3fn), torch.ones((), device="cuda")
try:  # Inductor's code of it calls the operator itself
    torch._scaled_mm(x, x.t(), one, one, out_dtype=torch.bfloat16)
except NotImplementedError as error:
    print("refused" if "aten::_scaled_mm" in str(error) else error)
"""
# Each line is computed on the CPU and on the device, with the warnings of tensors that it resizes;
# `T` makes a tensor there, `x` is 0 to 4.
_COMPARED = """
addmm(ones(1).to(d), ones(3, 4).to(d), ones(4, 1).to(d))
addmm(ones(1, 5).to(d), ones(3, 4).to(d), ones(4, 5).to(d), beta=2)
addmm(ones(2).to(d), ones(2, 0).to(d), ones(0, 2).to(d), beta=3)
addmv(ones(1).to(d), ones(3, 4).to(d), ones(4).to(d))
nn.functional.linear(ones(3, 4).to(d), ones(1, 4).to(d), ones(1).to(d))
x.view(5).add_(x)
x[1:].copy_(x[:-1])
x[:4].view(2, 2).add_(x[:4].view(2, 2).t())
add(x[:-1], 1, out=x[1:])
x[1:].scatter_(0, T([0, 1]), x[:2])
x[T([7])]
x[T([-1])]
x.index_put_((T([9]),), ones(1).to(d))
x.gather(0, T([-1]))
x.scatter(0, T([9]), 1.0)
x.index_select(0, T([9]))
x.take(T([9]))
x.index_copy(0, T([9]), ones(1).to(d))
nn.functional.embedding(T([9]), x.view(5, 1))
nn.functional.cross_entropy(zeros(1, 5).to(d), T([9]))
nn.functional.cross_entropy(zeros(2, 5).to(d), T([-100, 4]))
full((2,), 16777217.0, dtype=int64, device=d)
full((2,), 300, dtype=uint8, device=d)
full((2,), -1, dtype=uint8, device=d)
full((2,), 1e9, dtype=float16, device=d)
full((2,), -0.0, device=d).signbit()
full((2,), 0.0, device=d).signbit()
ones(1, 3).to(d).expand(2, 3).fill_(2)
zeros(2, dtype=float8_e5m2fnuz).to(d).fill_(3).view(uint8)
x.view(1, 5).t().expand(5, 3).to(float16)
x.repeat_interleave(T([2, 0, 1, 3, 1]))
repeat_interleave(T([2, -1]))
x.int().add_(x.to_sparse())
x.to_sparse().int().sub_(x.to_sparse())
x.to_sparse().int().mul_(x.to_sparse())
ones(2, 3).to(d).repeat_interleave(T([1, 2, 0]), 1, output_size=3)
(T([1.0, 2.0]) * -0.0).signbit()
zeros(2, dtype=int64).to(d).masked_fill(T([True, False]), 16777217.0)
div(T([1.0, 6.0, 5.0, 0.0]), T([0.1, 0.1, 0.0, -1.0]), rounding_mode="floor")
T([1.0, -6.0]) // 0.1
T([-7, 7]) // 2
T([0, 1, -3], dtype=int8).clamp(max=200)
T([0, 1, -3], dtype=int8).clamp(-300, 300)
T([1, 9], dtype=uint8).clamp(min=-1, max=5)
T([1, -5]) >> 64
T([1, 200], dtype=uint8) >> 9
T([1, 2]) ** -1
T([1.0, 2.0]) ** -1
3 - T([True, False])
T([True]) - T([True])
arange(0.5, 5.5, 1.5, dtype=int64, device=d)
arange(0, 3, 0.5, dtype=int64, device=d)
T([2**63 + 1, 1, 5], dtype=uint64).sort(stable=True)[1]
set_default_dtype(float64) or T([1, 2]) / 2
set_default_dtype(float32) or T([1, 2]) / 2
use_deterministic_algorithms(True) or zeros(3).to(d).scatter_add_(0, T([0, 0]), T([1.0, 2.0]))
use_deterministic_algorithms(True) or x.kthvalue(2)[0]
use_deterministic_algorithms(False) or x.sum()
linalg.lstsq(ones(5, 3).to(d), ones(4, 2).to(d))[0]
linalg.lstsq(ones(2, 5, 3).to(d), ones(5, 2).to(d))[0]
linalg.lstsq(ones(5, 3).to(d), T([1.0, 2.0], dtype=float64))[0]
linalg.householder_product(ones(5, 3).to(d), ones(4).to(d))
ormqr(ones(2, 5, 3).to(d), ones(1, 3).to(d), ones(2, 5, 3).to(d))
ormqr(ones(5, 3).to(d), ones(2).to(d), ones(5, 2).to(d))
linalg.lu_solve(ones(2, 2).to(d), T([2, 2]), ones(2, 1).to(d))
linalg.lu_solve(ones(2, 2).to(d), T([0, 2], dtype=int32), ones(2, 1).to(d))
linalg.lu_solve(ones(2, 2).to(d), T([2, 3], dtype=int32), ones(2, 1).to(d))
lu_unpack(ones(2, 2).to(d), T([2], dtype=int32))[0]
linalg.solve(ones(2, 2).to(d), T([1.0, 2.0], dtype=float64))
linalg.eigh(ones(2, 2).to(d), "X")[0]
linalg.eigvalsh(ones(2, 2).to(d), "X")
linalg.inv(ones(2, 2, dtype=float16).to(d))
linalg.matrix_exp(T([[[nan, 1.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]))[1]
linalg.matrix_exp(T([[0.0, 1e30], [0.0, 0.0]]))
linalg.ldl_solve(eye(3).to(d), T([1, 2, 3]), ones(3, 1).to(d))
linalg.ldl_solve(eye(3).to(d), T([1, 2, 3], dtype=int16), ones(3, 1).to(d))
linalg.ldl_solve(eye(3).to(d), T([1, 2, 3], dtype=int32), ones(2, 1).to(d))
linalg.ldl_solve(ones(2, 3).to(d), T([1, 2], dtype=int32), ones(3, 1).to(d))
linalg.ldl_solve(eye(3).to(d), T([1.0, 2.0, 3.0]), ones(3, 1).to(d))
linalg.ldl_solve(eye(3).to(d), T([1, 2], dtype=int32), ones(3, 1).to(d))
linalg.ldl_solve(eye(3).to(d), T([1, 2, 3], dtype=int32), ones(3, 1).double().to(d))
fake_quantize_per_channel_affine(ones(2, 2).to(d), ones(2).to(d), T([0, 30], dtype=int32), 1, -20, 20)
fake_quantize_per_channel_affine(ones(2, 2).to(d), ones(2).to(d), T([0, 1], dtype=int32), -1, -20, 20)
quantize_per_tensor(ones(2, dtype=float64).to(d), 0.1, 3, qint8)
quantize_per_tensor(ones(2).to(d), 0.1, 300, qint8)
quantize_per_tensor(ones(2).to(d), 0.1, -1, quint8)
quantize_per_channel(ones(2, 2).to(d), ones(2).to(d), T([0, -1]), 1, quint8)
quantize_per_channel(T([[0.6, 1.4]]), T([0.5, 0.5]), T([2.4, 2.4]), 1, quint8).int_repr()
nn.functional.adaptive_max_pool2d(zeros(0, 4, 4).to(d), 2)
nn.functional.adaptive_max_pool2d(zeros(0, 2, 4, 4).to(d), 2)
nn.functional.adaptive_max_pool2d(zeros(2, 0, 4, 4).to(d), 2)
x + ones(2).to(d)
ones(2, 3).to(d) * ones(3, 1, 2).to(d)
x.add_(ones(2, 5).to(d))
where(x > 0, ones(2).to(d), ones(1).to(d))
x.masked_select(ones(2).bool().to(d))
x.copy_(ones(3).to(d))
(lambda o: split_with_sizes_copy(x, [2, 3], out=o) or cat(o))([zeros(2).to(d), zeros(3).to(d)])
split_with_sizes_copy(x, [2, 3], out=[zeros(2).to(d)])
x.copy_(2.5)
x.int().copy_(7.9)
x.double().copy_(0.1)
x.to(complex64).copy_(1 + 2j)
x.add_(ones(2, 5).to(d))
cat((ones(3, 1).to(d), ones(2, 2).to(d)))
x[:0].max()
x[:0].argmax()
zeros(0, 3).to(d).min(0)
zeros(0, 3).to(d).amax(1)
zeros(0, 3).to(d).amax((0, 1))
x.view(1, 5)[ones(3).bool().to(d)]
x.scatter_(0, T([0, 1, 2]), ones(2).to(d))
x.scatter_(0, zeros(6, dtype=int64).to(d), 1.0)
x.__setitem__(x > 3, ones(3).to(d))
x.index_copy_(0, T([0]), ones(2).to(d))
x.index_add_(0, T([0]), ones(2).to(d))
x[0].index_add(0, T([0]), ones(1, 1, 1).to(d))
x.index_add(0, T([0]), ones(1, 1).to(d))
x.index_add(0, T([0]), x[0])
x[0].index_add(0, T([0]), x[:1])
ones(3, 2).to(d).index_add(-2, T([0, 2]), ones(2, 2).to(d))
x.index_add(0, T([[0]]), ones(1).to(d))
x.index_add(0, T([0.0]), ones(1).to(d))
x.index_add(0, T([0]), T([1.0], dtype=float64))
normal(ones(120).to(d), ones(2, 3, 4, 5).to(d))
normal(T([1.0, 2.0]), 0 * T([1.0, 2.0]), out=zeros(0, dtype=float64).to(d))
normal(T([1.0, 2.0]), 0.0, out=zeros(2).to(d))
normal(T([1.0, 2.0]), 0 * T([1.0, 2.0]), out=zeros(3).to(d))
add(x, x, out=zeros(2).to(d))
complex(x, x, out=zeros(2, dtype=complex64).to(d))
sort(x, out=(zeros(2).to(d), zeros(2, dtype=int64).to(d)))[0]
nonzero(x, out=zeros(2, dtype=int64).to(d))
masked_select(x, x > 1, out=zeros(2).to(d))
scatter(x, 0, T([1, 0]), x, out=zeros(3).to(d))
pow(x.long(), x.long(), out=zeros(3, dtype=int64).to(d))
mm(x[:0].view(5, 0), x[:0].view(0, 5), out=zeros(3).to(d))
cumsum(x, 0, out=zeros(3).to(d))
sum(x, 0, out=zeros(2).to(d))
arange(5, out=zeros(2).to(d))
normal(3, 0 * T([1.0, 2.0]), out=zeros(2).to(d))
x.lerp(x + 4, T(0.25))
x.lerp_(x + 4, T([0.5, 0.25, 0.0, 1.0, 2.0]))
x.lerp(T(8.0), T(0.75))
x.index_fill_(0, T([0.5]), 1)
x.put_(T([0]), ones(2).to(d))
nn.functional.conv2d(ones(1, 3, 2, 2).to(d), ones(2, 3, 4, 4).to(d))
nn.functional.conv1d(ones(1, 3, 4).to(d), ones(2, 3).to(d))
nn.functional.layer_norm(ones(2, 3).to(d), (2,))
nn.functional.cross_entropy(ones(2, 3).to(d), ones(2, 4).to(d))
nn.functional.nll_loss(ones(2, 3).to(d), ones(2).to(d))
nn.functional.max_pool2d(ones(2, 2).to(d), 2)
x.long().add_(1.5)
-(x > 0)
multinomial(-x, 1)
bucketize(x, ones(2, 2).to(d))
eye(-1, device=d)
complex(x, x.double())
equal(x, x.int())
trace(x)
x.int().norm()
(lambda c: tensor((x + c).tolist() + [_C._is_cow_tensor(x), _C._is_cow_tensor(c)]))(x._lazy_clone())
(lambda c: tensor(x.add_(c).tolist() + c.tolist() + [_C._is_cow_tensor(c)]))(x._lazy_clone())
(lambda c: tensor(add(x, c, out=c).tolist() + x.tolist() + [_C._is_cow_tensor(c)]))(x._lazy_clone())
"""
_COMPARE = """
import sys, threading, warnings, torch

def compute(line, d):
    scope = {**vars(torch), "d": d, "x": torch.arange(5.0, device=d)}
    scope["T"] = lambda *a, **k: torch.tensor(*a, device=d, **k)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = eval(line, scope)
            found = str(result.dtype), result.tolist()
        except Exception as error:
            return type(error).__name__, str(error)
    texts = [str(one.message).split(" (Triggered")[0] for one in caught]
    return *found, [text for text in texts if "resized" in text]

barrier, errors = threading.Barrier(4), []
def start():
    y = torch.empty(8, device="cuda")
    barrier.wait()
    try:
        y.sigmoid()
    except Exception as error:
        errors.append(error)
threads = [threading.Thread(target=start) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not errors, errors
for dtype in (torch.float16, torch.bfloat16):
    assert torch.rand(20000, dtype=dtype, device="cuda").max() < 1
try:
    torch.empty(0, device="cuda").max()
except Exception:
    pass
assert torch.ones(3, device="cuda").max() == 1

def draw(low, high):
    torch.manual_seed(0)
    return torch.randint(low, high, (16,), device="cuda").tolist()
torch.manual_seed(0)
words = torch.empty(16, dtype=torch.int64, device="cuda").random_(-(2**63), None).tolist()
words = [(word + 2**63) % 2**64 for word in words]
assert [(word >> 32) % 2**27 for word in words] == draw(0, 2**27)
for low, high in ((0, 2**28), (-5, 2**62), (0, 2**63 - 1), (-(2**63), 2**63 - 1)):
    assert draw(low, high) == [low + word % (high - low) for word in words], (low, high)

for line in sys.argv[1].strip().splitlines():
    wanted, found = compute(line, "cpu"), compute(line, "cuda")
    if wanted != found:
        print(line, wanted, found)
print("compared")
"""

# Each line is computed on the CPU and on the device, with its gradient of `a` where it has one; `a`
# is a batch of matrices, `s` of positive ones, `z` of complex ones; `h` is a Hermitian one.
_NEARLY = """
fft.fft(a); fft.irfft(fft.rfft(a, 7), 7); fft.fftn(z.conj(), dim=(0, 2)); fft.hfft(z, 5); fft.fft2(z.mT)
fft.fft(a.reshape(-1)[:67]); fft.ifft(fft.fft(zeros(0, 4).to(d))); fft.fftshift(fft.fft(a, norm="ortho"))
linalg.inv(a); linalg.det(a); linalg.det(a.mT); linalg.slogdet(a)[1]; linalg.solve(a, a[..., :1])
linalg.solve(a.mT, a, left=False); linalg.lu(a)[2]; linalg.lu_solve(*linalg.lu_factor(a), a)
linalg.cholesky(s); linalg.cholesky(s, upper=True); cholesky_inverse(linalg.cholesky(s))
linalg.solve_triangular(a.triu(), a, upper=True); linalg.qr(a)[1]; linalg.qr(s[..., :2], mode="complete")[1]
linalg.eigvalsh(s); linalg.svdvals(a[:, :2]); linalg.pinv(a[..., :2]); linalg.matrix_exp(a / 4)
linalg.lstsq(a[..., :2], a)[0]; linalg.svdvals(zeros(2, 2).to(d)); linalg.det(zeros(2, 0, 0).to(d))
(lambda w: w @ w.mT)(linalg.svd(a[:, :1].detach())[2]); (lambda w: w @ w.mT)(linalg.svd(s[0, :1])[2])
(lambda u, v, w: (u[..., :1] * v[:, None]) @ w)(*linalg.svd(a[..., :1].detach())); linalg.eigh(zeros(0, 3, 3).to(d))[1]
linalg.svd(zeros(0, 3, 2).to(d))[0]; linalg.inv(zeros(0, 3, 3).to(d)); linalg.matrix_rank(ones(3, 3).to(d)); linalg.inv(a[:, :1, :1])
z * z.conj(); z / (z + 1); z.abs(); z.exp(); z.acosh(); z.pow(3); z.prod(1); z @ z.mT.conj(); z[0, [2, 1]]
view_as_real(z.conj().resolve_conj()); z.conj().imag; where(z.real > 0, z, 1.0); z.std(1); cat((z, z.conj()))
linspace(0, 1j, 5, device=d); z.clone().conj_physical_(); T([-1 + 6e-8j, -1 + 6e-8 + 0j]).atanh()
complex(T([6e-8, inf, 1.0]), T([1.0, 1.0, -inf])).atan(); complex(T([inf, -inf]), T([1.0, inf])).asinh()
complex(T([inf, -inf]), T([1.0, inf])).acosh(); complex(T([inf, -inf]), T([1.0, inf])).asin()
z.masked_fill(z.real > 0, 2j); z.clone().index_put_((T([1]),), z[:1]); z.mT.clone().add_(1j, alpha=2)
sparse.mm(a[0].to_sparse(), a[1]); a[0].to_sparse().to_dense(); a[0].detach().to_sparse_csr() @ a[1].detach()
nn.functional.interpolate(a, 7); nn.functional.pad(a, (2, 1), mode="replicate"); a.logcumsumexp(1)
nn.functional.adaptive_max_pool2d(a, 2); dot(a[0, 0].bfloat16(), a[0, 1].bfloat16())
"""
_COMPLEX_FACTORS = """
linalg.inv(z[..., :3]); linalg.det(a + 1j); linalg.slogdet(a + 1j)[1]; linalg.qr(z)[1]; linalg.svdvals(z)
linalg.cholesky(z @ z.mH + eye(3).to(d), upper=True); linalg.eigvalsh(z @ z.mH); linalg.lstsq(z, z[..., :1])[0]
linalg.lu_solve(*linalg.lu_factor(z[..., :3]), z, adjoint=True); linalg.lu_factor(z.mT)[1]; linalg.pinv(z)
(lambda w, v: (v * w[:, None]) @ v.mH)(*linalg.eigh(z @ z.mH)); linalg.svdvals((arange(2e3).view(50, 40) % 7).to(d))
(lambda u, v, w: (u * v[:, None]) @ w)(*linalg.svd(z, full_matrices=False)); linalg.eigvalsh(z[..., :3])
linalg.lu(z)[0]; linalg.lu(z.mT)[1]; linalg.lu(z[..., :3])[2]; linalg.eigvalsh(1e200 * h) / 1e200
linalg.eigvalsh(1e-200 * h) / 1e-200; linalg.svdvals(1e300 * h) / 1e300; linalg.svdvals(1e-300 * h) / 1e-300
linalg.eigvalsh(h - 5 * eye(2).to(d)); (lambda w, v: (v * w) @ v.mH)(*linalg.eigh(h * 1e200)) / 1e200
"""
_READ_BETWEEN = """
nn.functional.grid_sample(a[:, None], a.view(2, 4, 2, 2) / 3, mode="bicubic", padding_mode="reflection", align_corners=True)
nn.functional.grid_sample(a[None, None], a.reshape(-1)[:30].view(1, 2, 5, 1, 3) / 4, padding_mode="border", align_corners=False)
nn.functional.interpolate(a[None], (7, 3), mode="bicubic", antialias=True); nn.functional.adaptive_avg_pool3d(a[None], 3)
nn.functional.interpolate(a[None], 6, mode="bicubic"); nn.functional.interpolate(a[None], (3, 2), mode="bilinear", antialias=True)
nn.functional.embedding_bag(T([0, 2, 2, 1]), a[0], T([0, 0, 3]), mode="max"); pdist(a[0]); pdist(a[0], p=1)
nn.functional.embedding_bag(T([0, 2, 2, 1]), a[0], T([0, 3, 4]), mode="mean", padding_idx=2, include_last_offset=True)
nn.functional.embedding_bag(T([0, 2, 2, 1]), a[0], T([0, 1, 3]), mode="sum", per_sample_weights=a[1, 0], scale_grad_by_freq=False)
nn.functional.ctc_loss(a.log_softmax(-1), T([[1, 2], [2, 2], [3, 1], [1, 3]]), (2, 2, 1, 2), (2, 2, 1, 1), zero_infinity=True)
a.digamma(); a.lgamma(); T([0.0, -0.0, -1.0, -2.5, inf, 1e30]).digamma().nan_to_num(7.0); special.i1e(a); gcd(T([12, -8]), T([18, 0]))
histc(a.detach(), 5); nonzero_static(a.detach() > 0, size=40); a.index_reduce(1, T([0, 2, 0]), a[:, :3].detach(), "amax")
nn.functional.multi_margin_loss(a[0], T([0, 1, 2, 3]), p=2); nn.functional.multilabel_margin_loss(a[0], T([1, 0, -1, 2]).expand(4, 4))
linalg.eigvals(a).abs().sum(1); (lambda w, v: (v * w[:, None]) @ linalg.inv(v))(*linalg.eig(a)); linalg.eig(zeros(3, 3).to(d))[1]
(lambda w, v: (v * w[:, None]) @ linalg.inv(v))(*linalg.eig(z[..., :3])); linalg.eig(zeros(0, 2, 2).to(d))[0]; linalg.solve(zeros(0, 0).to(d), zeros(0, 2).to(d))
nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).to(d).eval()(a.detach()).sum(-1).abs() < 1e-5
"""
_SAMPLED = """
import torch
torch.manual_seed(0)
one = torch.ones(20000, device="cuda")
def close(sample, mean, variance):
    found = sample.double().mean().item(), sample.double().var().item()
    assert abs(found[0] - mean) < 0.06 * mean and abs(found[1] - variance) < 0.1 * variance, found
for shape in (0.05, 1.0, 30.0):
    close(torch._standard_gamma(one * shape), shape, shape)
for rate in (0.5, 40.0):
    close(torch.poisson(one * rate), rate, rate)
close(torch.binomial(one * 10, one * 0.3), 3, 2.1)
shares = torch.distributions.Dirichlet(torch.tensor([1.0, 3.0], device="cuda")).sample((20000,))
close(shares[:, 1], 0.75, 3 / 80)
shapes, places = torch.tensor([0.3, 2, 6, 15]), torch.tensor([0.1, 1, 5, 20])
wanted = torch._standard_gamma_grad(shapes, places)
found = torch._standard_gamma_grad(shapes.cuda(), places.cuda()).cpu()
torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
for fill in (torch.Tensor.uniform_, torch.Tensor.normal_):  # a gap has other memory, no other numbers
    torch.manual_seed(1)
    direct = fill(torch.empty(70001, dtype=torch.float64, device="cuda"))
    torch.manual_seed(1)
    assert torch.equal(fill(torch.empty(70001, 2, device="cuda").double()[:, 0]), direct)
held = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
drawn = torch.rand(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda")
assert torch.cuda.max_memory_allocated() - held == 2 << 22
print("sampled")
"""
_CAPTURED = """
import torch
def draw(a):
    drawn = [getattr(a.clone(), name)() for name in ("uniform_", "normal_", "exponential_", "random_")]
    drawn += [torch.nn.functional.dropout(a, 0.3), torch.bernoulli(a), torch.normal(a, 2.0)]
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
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    a.add_(1)
    try:
        torch.poisson(a)
    except NotImplementedError as error:
        print("refused" if "a capture cannot read" in str(error) else error)
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
_REFUSED_BEFORE = """
igamma(s.abs(), a.abs())
igammac(s.abs() * 20, a.abs() * 20)
2 ** T([0, 1, 62, 65]); T([1, -1, 2, -1, 0, 3]) ** T([-2, -3, -1, -2, 3, 50])
T([nan, nan, 2.0, 0.0]).igamma(T([0.0, inf, inf, 0.0])).nan_to_num(7.0)
igamma(T([1e9, 3e7, 2e6]), T([1e9, 3.0001e7, 1.999e6]))
igammac(T([1e9, 3e7, 2e6, 1e30, 1e6]), T([1e9, 3.0001e7, 1.999e6, 1.0, 1e30]))
igamma(s.abs(), tensor(2.0))
igammac(tensor(2.0), s.abs())
hash_tensor(s, 1, keepdim=True).view(int64)
segment_reduce(a.reshape(8, 4), "prod", lengths=T([3, 0, 5]))
segment_reduce(a.reshape(8, 4), "max", offsets=T([0, 3, 8]))
segment_reduce(a, "mean", lengths=T([[1, 3], [2, 2]]), axis=1)
nn.functional.rrelu(a, 0.2, 0.2, training=True)
nn.functional.embedding(T([1, 1, 3]), a.detach().reshape(8, 4).clone(), max_norm=1.0)
nn.functional.embedding(T([1, 1, 3]), a.detach().double().reshape(8, 4).clone(), max_norm=1.0)
linalg.matrix_sqrth(s)
func.jvp(lambda v: nn.functional.glu(v), (a.detach(),), (s,))[1]
func.jvp(func.grad(lambda v: nn.functional.glu(v, 1).sin().sum()), (a.detach(),), (s,))[1]
[_assert_async(T([1.0])), a][1]; [_assert_async(T([True]), "text"), a][1]
nn.functional.grouped_mm(a.repeat(2, 2, 4)[0], s.repeat(1, 4, 2), offs=T([3, 8]).int()) * 2
nn.functional.grouped_mm(a.repeat(1, 1, 4), s.repeat(1, 4, 2)[0], offs=T([3, 8]).int()) * 2
nn.functional.grouped_mm(a.repeat(1, 1, 4)[0], s.repeat(1, 4, 2)[0], offs=T([0, 16]).int()) * 2
_weight_norm(a, s[:, :1, :1], 0)
_weight_norm(a.half(), s[:1, :1].half(), 2)
_masked_softmax(a, a > 3, -1, 2)
_masked_softmax(a.detach()[None], T([[True, False, False, True]]), mask_type=1)
_masked_softmax(a.detach()[None], (s[0] > 1).triu(1), 3, 0)
ops.aten.linalg_polar(z.mT)[1]
T([1, 2, 3]).__ilshift__(2)
z.scatter_add(1, T([[[0, 2]]]), z[:1, :1, :2])
z.put(T([1, 1]), z[0, 0, :2], accumulate=True)
linalg.cross(z[:, :, :3], z[:, :, 1:])
logaddexp(z, z.flip(0))
view_as_real(logaddexp(T([-inf + 0j, inf + 0j, inf + 0j]), T([-inf + 0j, 1 + 0j, inf + 0j])))
stack(std_mean(z, 1))
sparse.softmax(a[0].relu().to_sparse(), 1).to_dense()
sparse.log_softmax(a.relu().to_sparse(), 0).to_dense()
sparse.mm(a[0].relu().to_sparse_csr(), s[0])
sparse.sampled_addmm(s[0].to_sparse_csr(), s[1], s[0], beta=0.5, alpha=2).to_dense()
(s[0].relu().to_sparse_csr() + s[1].to_sparse_csr()).to_dense()
s[0].to_sparse_csr() @ s[1, 0]
(a[0].relu().to_sparse() @ s[0].to_sparse()).to_dense()
(a[0].to_sparse() * s[0].relu().to_sparse()).to_dense()
sparse.sum(a.to_sparse(), 1).to_dense()
bmm(s.relu().to_sparse(), z.real.mT)
s[0] + s[1].to_sparse()
nested.to_padded_tensor(nested.nested_tensor([s[0], s[1, :2]]) @ nested.nested_tensor([*s.mT]), -1.0)
s[0].cpu().to_sparse_bsr((2, 1)).to(d).to_dense(); s[0].relu().to_sparse_bsc((1, 2)).to_dense()
polygamma(1, a); polygamma(1, T([2, 3])); T([0.5, 4.0]).polygamma_(1)
fake_quantize_per_tensor_affine(a, 0.1, 3, -20, 20)
fake_quantize_per_channel_affine(a[0], T([0.1, 0.2, 0.3, 0.4]), T([0, 1, 2, 3]).int(), 1, -20, 20)
_fake_quantize_learnable_per_tensor_affine(a, T([0.1]), T([2.0]), -20, 20, 0.5)
fused_moving_avg_obs_fake_quant(a, T([1]), T([1]), T(inf), T(-inf), T([1.0]), T([0]).int(), 0.01, 0, 99, 0)
quantize_per_tensor(a.detach(), 0.1, 3, qint8).int_repr(); quantize_per_tensor(s.mT, 0.1, 3, qint32)[1].dequantize()
quantize_per_channel(s[0], T([0.1, 0.2, 0.3, 0.4]), T([0, 1, 2, 3]), 1, quint8).dequantize()
linalg.ldl_factor((a + a.mT - 6).detach())[1]; linalg.ldl_solve(*linalg.ldl_factor((a + a.mT - 6).detach()), s)
nn.functional.adaptive_max_pool2d(a.repeat(2, 5, 5), 3); nn.functional.adaptive_max_pool3d(a[None].repeat(2, 1, 1, 1), (1, 3, 2))
"""
_COMPARE_LINES = """
import sys, torch

def compute(line, d):
    torch.manual_seed(3)
    a = torch.randn(2, 4, 4)
    z = torch.randn(2, 3, 4, dtype=torch.complex64).to(d)
    s = (a @ a.mT + torch.eye(4)).to(d)
    a = (a + 3 * torch.eye(4)).to(d).requires_grad_()
    T = lambda *x: torch.tensor(*x, device=d)
    h = torch.tensor([[-1, 0.5j], [-0.5j, 1]], dtype=torch.complex128, device=d)
    result = eval(line, {**vars(torch), "d": d, "a": a, "s": s, "z": z, "h": h, "T": T})
    if result.requires_grad:
        (result.abs() if result.is_complex() else result).sum().backward()
    return [one.detach().resolve_conj().cpu() for one in (result, a.grad) if one is not None]

for line in sys.argv[1].replace(";", "\\n").split("\\n"):
    if line.strip():
        try:
            for one, other in zip(compute(line, "cpu"), compute(line, "cuda"), strict=True):
                torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4, check_stride=False)
        except Exception as error:
            print(line, error)
"""
_COMPARE_NEARLY = (
    _COMPARE_LINES
    + """
def compute_all(x):
    y = x @ x.mT
    return (
        torch.linalg.inv(x), torch.linalg.solve(x, y), torch.linalg.cholesky(y),
        *torch.linalg.qr(x), *torch.linalg.svd(x), torch.linalg.det(x), *torch.linalg.lu_factor(x),
        torch.fft.rfft(x.mT, dim=0), torch.fft.irfft2(torch.fft.rfft2(x)),
    )

x = torch.randn(3, 3, device="cuda") + 3 * torch.eye(3, device="cuda")
for one, other in zip(compute_all(x), torch.compile(compute_all)(x), strict=True):
    torch.testing.assert_close(other, one)

x = torch.randn(2, 67, device="cuda")
def transform():
    return torch.fft.fft(x[:, :12]), torch.fft.fft(x), torch.fft.fft(x) * 2
transform()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    results = transform()
for n in (67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, *range(2, 20)):
    torch.fft.fft(x[:, :1].expand(2, n))
junk = [torch.full((n,), 7.7, device="cuda", dtype=torch.float64) for n in range(10, 3000, 7)]
x.normal_()
graph.replay()
for one, other in zip(results, transform(), strict=True):
    torch.testing.assert_close(one, other)
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.linalg.inv(x[:, :2])
except NotImplementedError as error:
    assert "linalg_inv_ex" in str(error), error
print("compared")
"""
)

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


def _run(program: str, *arguments: str, devices: int = 1, **variables: str) -> str:
    python = os.environ.get(_VARIABLE)
    if not python or not Path(python).exists():
        pytest.skip(f"{_VARIABLE} names no Python with PyTorch")
    main = "from vgpu_sim.cli.main import main; main()"
    board = ["--board", "h100-80gb", "--count", str(devices), "--preload", "13"]
    command = [sys.executable, "-c", main, "run", *board, "--", python, "-c", program, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_computes_eagerly() -> None:
    lines = _run(_PROGRAM).split("\n")
    assert lines[:2] == ["[2.0, 2.0, 2.0]", "True"]
    assert lines[2] == "put_ does not have a deterministic implemen"
    assert lines[3:6] == ["embedding_bag_backward_cuda_max ", "True", "True"]
    assert lines[6:9] == ["[7.0, 1.0]", "refused", "refused"]


@pytest.mark.slow
def test_results_and_errors_are_those_of_the_cpu() -> None:
    assert _run(_COMPARE, _COMPARED) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_transforms_factors_complex_and_sparse_numbers_agree_with_the_cpu() -> None:
    assert _run(_COMPARE_NEARLY, _NEARLY) == "compared\n"


@pytest.mark.slow
def test_checks_of_indices_can_be_switched_off() -> None:
    program = (
        'import torch; x = torch.arange(8.0, device="cuda");'
        'print(x[:4].take(torch.tensor([5], device="cuda")).item())'
    )
    assert _run(program, TESSERA_TORCH_CHECK_INDICES="0") == "5.0\n"


@pytest.mark.slow
def test_repeated_calls_compute_with_their_own_tensors_and_numbers() -> None:
    assert _run(_REPEATED) == "True\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_factors_of_complex_matrices_agree_with_the_cpu() -> None:
    assert _run(_COMPARE_LINES + 'print("compared")', _COMPLEX_FACTORS) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_images_bags_and_eigenvalues_agree_with_the_cpu() -> None:
    assert _run(_COMPARE_LINES + 'print("compared")', _READ_BETWEEN) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_segments_hashes_and_sparse_operators_agree_with_the_cpu() -> None:
    assert _run(_COMPARE_LINES + 'print("compared")', _REFUSED_BEFORE) == "compared\n"


@pytest.mark.slow
def test_numbers_are_those_of_a_gpu_where_the_cpu_differs() -> None:
    assert _run(_AS_ON_A_GPU) == "equal\n"


@pytest.mark.slow
def test_samples_have_their_distributions() -> None:
    assert _run(_SAMPLED) == "sampled\n"


@pytest.mark.slow
def test_graphs_draw_the_numbers_that_eager_calls_draw() -> None:
    assert _run(_CAPTURED) == "refused\n"


@pytest.mark.slow
def test_graphs_take_the_steps_of_fused_optimizers() -> None:
    assert _run(_CAPTURED_OPTIMIZERS) == "equal\n"


def test_two_devices_exchange_tensors() -> None:
    assert _run(_TWO_DEVICES, devices=2) == "equal\n"


@pytest.mark.slow
def test_the_first_kernel_of_a_process_prepares_only_what_it_needs() -> None:
    lines = _run(_FIRST_KERNEL, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1").splitlines()
    assert lines == ["True None", "0"]


@pytest.mark.slow
def test_gradients_of_samples_of_dirichlet_are_exact() -> None:
    assert _run(_DIRICHLET) == "exact\n"


@pytest.mark.slow
def test_a_stream_sleeps_and_a_grid_of_other_sizes_is_an_error() -> None:
    assert _run(_SLEEPS) == "slept\n"


@pytest.mark.slow
def test_a_recorded_program_convolves_and_copies() -> None:
    assert _run(_RECORDED) == "True\nTrue\n"


@pytest.mark.slow
def test_a_compiled_program_convolves_in_channels_last() -> None:
    assert _run(_CHANNELS_LAST) == "True\n"


@pytest.mark.slow
def test_kernels_of_eager_operators_are_not_counted_as_the_programs() -> None:
    assert _run(_UNCOUNTED) == "2 True\nTrue True\n"
