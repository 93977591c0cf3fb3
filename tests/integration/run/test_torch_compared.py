"""PyTorch's operators return and raise on the device what they do on the CPU.

Skipped where PyTorch's wheel is not installed (``support.processes.torch_program``).
"""

import pytest

from support.processes.torch_program import run_program

# Each line is computed on the CPU and on the device, with the warnings of tensors that it resizes;
# `T` makes a tensor there, `x` is 0 to 4.
_COMPARED = """
addmm(ones(1).to(d), ones(3, 4).to(d), ones(4, 1).to(d))
addmm(ones(1, 5).to(d), ones(3, 4).to(d), ones(4, 5).to(d), beta=2)
addmm(ones(2).to(d), ones(2, 0).to(d), ones(0, 2).to(d), beta=3)
addmm(ones(5).to(d), x[:4].as_strided((1, 4), (0, 1)), ones(4, 5).to(d))
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
ones(1, 3).to(d).expand(2, 3).add_(2)
ones(1, 3).to(d).expand(2, 3).masked_fill_(T([True, False, True]), 2)
nn.functional.hardswish(x[:1].expand(3), inplace=True)
sin(x[:2], out=x[:1].expand(2))
ones(0, 1).to(d).expand(0, 3).add_(2)
ones(1, 3).to(d).expand(2, 3).copy_(ones(2, 3))
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
nn.functional.nll_loss(x.view(1, 5), T([3], dtype=uint8))
nn.functional.nll_loss(rand(2, 5).to(d).fill_(2), T([3, 1], dtype=uint8), x, reduction="none")
nn.functional.avg_pool2d(arange(64.0).to(d).view(1, 1, 8, 8), 6, 1, padding=2, ceil_mode=True)
nn.functional.avg_pool3d(arange(216.0).to(d).view(1, 6, 6, 6), 4, 2)
nn.functional.avg_pool1d(arange(64.0).to(d).view(1, 1, 64), 32, 3, count_include_pad=False)
nn.functional.adaptive_avg_pool2d(arange(100.0).to(d).view(1, 10, 10), (1, 3))
ops.aten.avg_pool2d_backward(ones(1, 1, 3, 3).to(d), ones(1, 1, 8, 8).to(d), [6, 6], [1, 1], [0, 0], False, True, 32)
put(T([1, 2, 3, 4])[::2], T([1, 9, 0, 9])[::2], T([5, 6]), True)
put(T([1, 2, 3]).to(uint8), T([0, 0]), T([5, 6]).to(uint8), True)
T([1, 2]).put_(T([0, 1]), x[:2])
T([1, 2]).put_(T([0, 1]).int(), T([0, 1]))
x.index_add_(0, T([0, 1]), x[:2])
x.index_copy_(0, arange(5).to(d), x)
x.scatter_(0, arange(5).to(d), x)
x.index_put_((arange(5).to(d),), x)
x.put_(arange(5).to(d), x)
nn.functional.max_pool2d(ones(2, 2).to(d), 2)
x.long().add_(1.5)
-(x > 0)
multinomial(-x, 1)
bucketize(x, ones(2, 2).to(d))
eye(-1, device=d)
complex(x, x.double())
equal(x, x.int())
T([1e38, 1e6, -1e6, 7.0]) % T([-2.5, 0.1, 0.1, -2.0])
T([1e300, -1e300], dtype=float64).remainder(3.5)
T([1e-40]).rsqrt() > 1e19
zeros(3, dtype=int8).to(d).index_add(0, T([0, 0, 2]), T([1, 2, 127], dtype=int8), alpha=2)
zeros(2, 3, dtype=bool).to(d).index_add_(1, T([2, 2]), ones(2, 2, dtype=bool).to(d))
lcm(T([4, 6, 0]), T([6, -4, 3]))
zeros(3).to(d).scatter_reduce(0, T([2] + [0] * 7), arange(8.0, device=d) - 9, "amax", include_self=False)
ones(2, dtype=int8).to(d).scatter_reduce(0, T([1, 0, 1, 1, 1]), T([2, 7, 3, 1, 5], dtype=int8), "prod")
zeros(2).to(d).scatter_reduce(0, zeros(20000, dtype=int64).to(d), arange(20000.0, device=d), "amax")
x[tensor([3, -1])]
x.view(1, 5)[:, tensor([True, False, True, False, False])]
x.view(5, 1)[tensor([1, 2]), T([0])]
(lambda y: y.__setitem__(tensor([1, 3]), 7.0) or y)(x.clone())
(lambda y: y.__setitem__(tensor([True, False] * 2 + [True]), 7.0) or y)(x.clone())
_validate_sparse_coo_tensor_args(T([[0, 2]]), T([1.0, 2.0]), [3], True) or x
_validate_sparse_coo_tensor_args(T([[2, 2]]), T([1.0, 2.0]), [3], True) or x
_validate_sparse_coo_tensor_args(T([[0, 7]]), T([1.0, 2.0]), [3]) or x
_validate_compressed_sparse_indices(True, T([0, 1, 5]), T([0, 1]), 2, 2, 2) or x
T([1, 2]).bincount(T([1.0]))
T([1, 2]).bincount(minlength=-1)
x[3].topk(2)[0]
x[3].kthvalue(2)[0]
multinomial(x * 0, 1)
multinomial(x, 0)
multinomial(x.int(), 1)
multinomial(x.view(1, 1, 5), 1)
normal(x, -x)
randint(0, 300, (2,), dtype=uint8, device=d)
randint(-1, 3, (2,), dtype=uint8, device=d)
randperm(300, dtype=uint8, device=d)
randperm(2050, dtype=float16, device=d)
trace(x)
x.int().norm()
isnan(var_mean(x[:0])[1])
all(x, ())
any(x.view(1, 5), [], keepdim=True)
std(x.int(), 0)
nn.functional.relu(x.bool())
(lambda y: y.masked_fill_(y > 0, y[4]))(x.clone())
nn.functional.conv1d(x.view(1, 1, 5), ones(1, 1, 2, device=d), padding=-1)
nn.functional.conv2d(ones(1, 1, 5, 5, device=d), ones(1, 1, 2, 2, device=d), stride=0)
nn.functional.conv2d(ones(1, 1, 5, 5, device=d), ones(1, 1, 2, 2, device=d), dilation=0)
isnan(stack(std_mean(empty(2, 0, device=d), 1)))
unique(empty(0, 5, device=d), dim=0)
unique(empty(2, 0, device=d), dim=0)
unique_consecutive(empty(0, 5, device=d), dim=0)
cdist(empty(3, 0, device=d), empty(2, 0, device=d), p=inf)
linalg.vector_norm(empty(0, 5, device=d), inf, -1)
(lambda y: y.gather(0, T([], dtype=uint8)).sum().backward() or y.grad)(x.clone().requires_grad_())
(lambda y: nn.functional.avg_pool2d(y, (3,), padding=(1,)).sum().backward() or y.grad)(ones(1, 7, 7, device=d, requires_grad=True))
(lambda y: nn.functional.pad(y, [1, 2], mode="reflect").real.sum().backward() or view_as_real(y.grad))(ones(1, 5, dtype=complex64, device=d, requires_grad=True))
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
shared, sums = torch.ones(4, device="cuda"), []
for _ in range(6):  # until the call is repeated from its record
    shared + 3
thread = threading.Thread(target=lambda: sums.append((shared + 3).sum().item()))
thread.start()
thread.join()
assert sums == [16.0], sums
torch.use_deterministic_algorithms(True)
for scan, values in (
    (torch.cumsum, torch.rand(70000, dtype=torch.complex64)), (torch.cumprod, 1 - torch.rand(2, 5000) / 1000),
):
    found, again = (scan(values.cuda(), -1) for _ in range(2))
    assert torch.equal(found, again)
    torch.testing.assert_close(found.cpu(), scan(values, -1), rtol=1e-4, atol=1e-3)
torch.use_deterministic_algorithms(False)
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
nested.as_nested_tensor([a[0], a[1, :2, :3]]).to_padded_tensor(7.0)
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
        torch.linalg.eigh(x[:, :2])
except NotImplementedError as error:
    assert "linalg_eigh" in str(error), error
print("compared")
"""
)


@pytest.mark.slow
def test_results_and_errors_are_those_of_the_cpu() -> None:
    assert run_program(_COMPARE, _COMPARED) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_transforms_factors_complex_and_sparse_numbers_agree_with_the_cpu() -> None:
    assert run_program(_COMPARE_NEARLY, _NEARLY) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_factors_of_complex_matrices_agree_with_the_cpu() -> None:
    assert run_program(_COMPARE_LINES + 'print("compared")', _COMPLEX_FACTORS) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_images_bags_and_eigenvalues_agree_with_the_cpu() -> None:
    assert run_program(_COMPARE_LINES + 'print("compared")', _READ_BETWEEN) == "compared\n"


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_segments_hashes_and_sparse_operators_agree_with_the_cpu() -> None:
    assert run_program(_COMPARE_LINES + 'print("compared")', _REFUSED_BEFORE) == "compared\n"
