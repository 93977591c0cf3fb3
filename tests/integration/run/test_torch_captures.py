"""CUDA graphs of PyTorch replay operators with new numbers, also those with tables of the host.

Skipped where PyTorch is not installed (``support.processes.torch_program``).
"""

import pytest

from support.processes.torch_program import run_program

_CAPTURE = """
import torch
from torch.nn import functional as F
torch.manual_seed(0)
D = "cuda"

def trained(compute):
    def step(*given):
        leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in given]
        result = compute(*leaves)
        result.square().sum().backward()
        return (result, *(x.grad for x in leaves if x.grad is not None))
    return step

def check(name, compute, *shapes):
    def make():
        return [
            torch.randn(one, device=D) if isinstance(one, tuple)
            else torch.randint(one[0], one[1], device=D) for one in shapes
        ]
    given, new = make(), make()
    static = [x.clone() for x in given]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        compute(*static)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = compute(*static)
    for x, y in zip(static, new):
        x.copy_(y)
    graph.replay()
    wanted = compute(*new)
    results, wanted = (r if isinstance(r, (tuple, list)) else (r,) for r in (results, wanted))
    for got, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(got, want, msg=lambda text: f"{name}: {text}")

X, INDEX = (6, 8), [6, (4,)]
columns = [8, (6, 3)]
check("arange", lambda x: x + torch.arange(8, device=D) + torch.linspace(-1, 1, 8, device=D), X)
check("tril_indices", lambda x: x[tuple(torch.tril_indices(6, 8, 1, device=D))], X)
check("sort", lambda x: x.sort(1), X)
check("topk", lambda x: x.topk(3, 1), X)
check("median", lambda x: x.median(1), X)
check("index", trained(lambda x, i: x[i]), X, INDEX)
check("index_put", lambda x, i, y: x.index_put((i,), y, accumulate=True), X, INDEX, (4, 8))
check("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), X, columns, (6, 3))
for kind in ("amax", "prod", "mean"):
    check(kind, lambda x, i, y: x.scatter_reduce(1, i, y, kind), X, columns, (6, 3))
check("embedding", trained(F.embedding), [9, (4, 5)], (9, 6))
check("embedding_bag", lambda i, x: F.embedding_bag(i, x), [9, (4, 5)], (9, 6))
check("one_hot", lambda i: F.one_hot(i, 5), [5, (6,)])
check("repeats", lambda x: x.repeat_interleave(
    torch.full((6,), 2, device=D), 0, output_size=12), X)
IMAGE = (2, 3, 6, 5)
for mode in ("nearest", "bilinear"):
    check(mode, trained(lambda x: F.interpolate(x, size=(9, 7), mode=mode)), IMAGE)
check("adaptive_avg", trained(lambda x: F.adaptive_avg_pool2d(x, 3)), IMAGE)
check("adaptive_max", trained(lambda x: F.adaptive_max_pool2d(x, 3)), IMAGE)
check("affine_grid", lambda x: F.affine_grid(x, (2, 3, 4, 4), align_corners=False), (2, 2, 3))
check("replicate", trained(lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")), IMAGE)
check("solve", lambda a, b: torch.linalg.solve_ex(a, b)[0], (3, 5, 5), (3, 5, 2))
check("inverse", lambda a: torch.linalg.inv_ex(a)[0], (5, 5))
check("determinant", torch.linalg.det, (5, 5))

x, graph = torch.rand(6, 8, device=D), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    drawn = torch.multinomial(x, 5, replacement=True)
torch.manual_seed(3)
graph.replay()
torch.manual_seed(3)
assert torch.equal(drawn, torch.multinomial(x, 5, replacement=True))
try:  # the number of the result's elements is known on the device only, as on a real GPU
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.nonzero()
except RuntimeError as error:
    assert "captur" in str(error), error
print("replayed")
"""


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiles some hundred kernels
def test_graphs_replay_operators_with_new_numbers() -> None:
    assert run_program(_CAPTURE) == "replayed\n"
