"""PyTorch's stock wheel: device, memory, streams, events, graphs, and compiled functions."""

import pytest
import torch

torch._inductor.config.compile_threads = 1
_functional = torch.nn.functional


@pytest.fixture
def numbers():
    torch.manual_seed(0)
    return torch.randn(64, 256), torch.randn(64, 256)


def test_the_device_has_its_name_capability_and_memory():
    assert torch.cuda.is_available()
    assert "H100" in torch.cuda.get_device_name(0)
    assert torch.cuda.get_device_capability() == (9, 0)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == torch.cuda.get_device_properties(0).total_memory


def test_copies_and_memset(numbers):
    x, _ = numbers
    assert torch.equal(x.to("cuda").cpu(), x)
    assert torch.equal(x.cuda().clone().cpu(), x)
    assert float(torch.zeros(1000, device="cuda").cpu().abs().sum()) == 0


def test_pinned_memory_and_asynchronous_copies(numbers):
    x, _ = numbers
    pinned = x.pin_memory()
    device = pinned.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(device.cpu(), x)


def test_the_allocator_reuses_and_returns_memory():
    torch.cuda.empty_cache()
    reserved_bytes = torch.cuda.memory_reserved()
    tensor = torch.empty(1 << 24, dtype=torch.uint8, device="cuda")
    address = tensor.data_ptr()
    assert torch.cuda.memory_allocated() >= 1 << 24
    del tensor
    again = torch.empty(1 << 24, dtype=torch.uint8, device="cuda")
    assert again.data_ptr() == address
    del again
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved_bytes


def test_streams_and_events(numbers):
    x, _ = numbers
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        first.record()
        device = x.to("cuda")
        second.record()
    torch.cuda.current_stream().wait_event(second)
    second.synchronize()
    assert second.query()
    assert first.elapsed_time(second) >= 0
    assert torch.equal(device.cpu(), x)


def test_a_graph_of_copies_replays(numbers):
    x, y = numbers
    source, target = x.to("cuda"), torch.empty_like(x, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        target.copy_(source)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(target.cpu(), x)
    source.copy_(y)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(target.cpu(), y)


_COMPILED = {
    "pointwise": lambda a, b: torch.relu(a * 2 + b),
    "sum": lambda a, b: (a * b).sum(-1),
    "maximum": lambda a, b: torch.maximum(a, b).amax(-1),
    "softmax": lambda a, _: torch.softmax(a, -1),
    "layer_norm": lambda a, _: _functional.layer_norm(a, (256,)),
    "rms_norm": lambda a, _: a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6),
    "gelu": lambda a, _: _functional.gelu(a),
}


@pytest.mark.parametrize("name", _COMPILED)
def test_a_compiled_function_agrees_with_the_cpu(numbers, name):
    x, y = numbers
    function = _COMPILED[name]
    actual = torch.compile(function)(x.to("cuda"), y.to("cuda"))
    torch.testing.assert_close(actual.cpu(), function(x, y), atol=1e-4, rtol=1e-4)


def test_a_compiled_function_replays_in_a_graph(numbers):
    x, y = numbers
    function = torch.compile(_COMPILED["pointwise"])
    a, b = x.to("cuda"), y.to("cuda")
    function(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(a, b)
    a.copy_(y)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(result.cpu(), torch.relu(y * 2 + y))


def test_statistics_of_two_parts_of_a_batch_join_to_those_of_the_whole():
    x = torch.randn(6, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 2 + 1
    parts = [torch.batch_norm_stats(part.cuda(), 1e-5) for part in (x[:2], x[2:])]
    means, deviations = (torch.stack(kind) for kind in zip(*parts, strict=True))
    running = torch.zeros(3).cuda(), torch.ones(3).cuda()
    sizes = torch.tensor([32.0, 64.0]).cuda()
    joint = torch.batch_norm_gather_stats_with_counts(
        x.cuda(), means, deviations, *running, 0.1, 1e-5, sizes
    )
    whole = torch.nn.BatchNorm2d(3)
    whole(x)
    deviation = (x.var((0, 2, 3), correction=0) + 1e-5).rsqrt()
    expected_statistics = (x.mean((0, 2, 3)), deviation, whole.running_mean, whole.running_var)
    for result, value in zip((*joint, *running), expected_statistics, strict=True):
        torch.testing.assert_close(result.cpu(), value, rtol=1e-5, atol=1e-5)
