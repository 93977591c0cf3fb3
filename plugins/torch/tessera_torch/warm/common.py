"""Programs that call the operators of usual training and inference."""

import runpy
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tessera_torch import counts, loading
from tessera_torch.warm import progress

_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_UNARY = ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "sin", "cos")
_BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge")
_REDUCED = ("sum", "mean", "amax", "amin")


def _element_wise(dtype: Any) -> Iterator[Callable[[], Any]]:
    x = torch.rand(64, 48, device="cuda").to(dtype) + 1
    for name in _UNARY:
        yield partial(getattr(torch, name), x)
    for name in _BINARY:
        operator = getattr(torch, name)
        yield partial(operator, x, x)
        yield partial(operator, x, x[0])
        if name not in ("maximum", "minimum"):
            yield partial(operator, x, 2)
    yield lambda: x.clone().add_(x).mul_(2).div_(3)
    yield lambda: torch.where(x > 1, x, 0)
    yield lambda: x.masked_fill(x > 1, 0)
    yield lambda: x.to(torch.float32)
    yield lambda: x.clamp(0, 1)
    yield lambda: x.pow(2)
    for activation in (functional.gelu, functional.silu, functional.leaky_relu):
        yield partial(activation, x)


def _others(dtype: Any) -> Iterator[Callable[[], Any]]:
    x = torch.rand(64, 48, device="cuda").to(dtype)
    for name in _REDUCED:
        yield getattr(x, name)
        yield partial(getattr(x, name), -1)
        yield partial(getattr(x, name), 0)
    yield lambda: x.softmax(-1)
    yield lambda: x.log_softmax(-1)
    yield lambda: x.argmax(-1)
    yield lambda: x.var(-1)
    yield lambda: x.cumsum(0)
    yield lambda: x @ x.T
    yield lambda: x.T.contiguous()
    yield lambda: torch.cat((x, x))
    yield lambda: torch.stack((x, x))
    yield lambda: x[1:, ::2].clone()
    yield lambda: x.topk(3)
    yield lambda: functional.dropout(x, 0.1)
    yield lambda: torch.zeros_like(x)
    yield lambda: torch.ones(3, device="cuda", dtype=dtype)
    yield lambda: torch.randn(3, device="cuda", dtype=dtype)


def _attend(mixed: Any, causal: bool, x: Any) -> Any:
    batch, length, width = x.shape
    heads = [
        projection.view(batch, length, 4, -1).transpose(1, 2)
        for projection in mixed(x).chunk(3, -1)
    ]
    attention = functional.scaled_dot_product_attention(*heads, is_causal=causal)
    return x + attention.transpose(1, 2).reshape(batch, length, width)


def _transformer() -> Any:
    model = nn.Sequential(
        nn.Embedding(50, 32),
        nn.LayerNorm(32),
        nn.Linear(32, 96),
        nn.LayerNorm(32),
        nn.Linear(32, 64),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(64, 32),
        nn.Linear(32, 50),
    )
    words, first_norm, mixed, *later_layers = model

    def forward(x: Any) -> Any:
        x = words(x)
        for causal in (True, False):
            x = _attend(mixed, causal, first_norm(x))
        for layer in later_layers:
            x = layer(x)
        return x

    model.forward = forward
    return model


def _convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def _train(model: Any, make_optimizer: Any, x: Any, classes: int) -> None:
    model.to("cuda")
    optimizer = make_optimizer(model.parameters())
    for _ in range(2):
        output = model(x)
        target = torch.randint(classes, output.shape[:-1], device="cuda")
        loss = functional.cross_entropy(output.reshape(-1, classes), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(x).argmax(-1).tolist()


def _trainings() -> Iterator[Callable[[], Any]]:
    perceptron = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10))
    tokens = torch.randint(50, (3, 17), device="cuda")
    for make in (
        partial(torch.optim.SGD, lr=0.1, momentum=0.9),
        torch.optim.Adam,
        torch.optim.AdamW,
    ):
        yield partial(_train, perceptron, make, torch.rand(7, 20, device="cuda"), 10)
    yield partial(_train, _transformer(), torch.optim.AdamW, tokens, 50)
    yield partial(_train, _convolutional(), torch.optim.SGD, torch.rand(4, 3, 16, 16).cuda(), 10)


def compile_all(model: Path | None) -> int:
    """Call common operators, then run the user's program; return the exit status."""
    if not loading.is_loaded():
        counts.say("the operators are not registered: see python -m tessera_torch.doctor")
        return 1
    refused = 0
    calls: list[Callable[[], Any]] = []
    for dtype in _TYPES:
        calls += (*_element_wise(dtype), *_others(dtype))
    calls += _trainings()
    for call in progress.follow(calls, "programs"):
        refused += _call(call)
    if model:
        sys.argv = [str(model)]
        sys.path.insert(0, str(model.parent))
        runpy.run_path(str(model), run_name="__main__")
    torch.cuda.synchronize()
    counts.say(f"{counts.summary()}, {refused} refused")
    return 0


def _call(call: Callable[[], Any]) -> int:
    try:
        call()
    except (NotImplementedError, RuntimeError) as err:
        if sys.stderr.isatty():
            progress.write("")
        counts.say(str(err).split("\n")[0])
        return 1
    return 0
