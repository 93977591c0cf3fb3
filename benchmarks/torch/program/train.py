"""Train four small models on the CPU, twice on the device, and compiled; print losses as JSON.

Runs in an environment with PyTorch, as ``python train.py [MODEL...]``: one line for each model.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional

STEPS = 50


class Block(nn.Module):
    """The residual block of ResNet-18."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outer)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outer)
        self.short = nn.Identity()
        if stride > 1 or inner != outer:
            self.short = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x):
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.short(x))


def resnet():
    """ResNet-18's eight blocks with an eighth of its channels, for images of 32 x 32."""
    layers, inner = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()], 8
    for outer, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
        layers += [Block(inner, outer, stride), Block(outer, outer, 1)]
        inner = outer
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 10))


class Attention(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.other_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(self.norm(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.other_norm(x))


class Gpt(nn.Module):
    """Four layers of attention."""

    def __init__(self, words=64, width=32, length=16):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Attention(width, 4) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.layers(self.words(tokens) + self.places(places))))


class Lstm(nn.Module):
    """Two layers of LSTM and a classifier of the last step."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 32, 2, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def mlp():
    return nn.Sequential(
        nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5)
    )


def vectors():
    return torch.randn(32, 20), torch.randint(0, 5, (32,))


def images():
    return torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def sentences():
    tokens = torch.randint(0, 64, (4, 17))
    return tokens[:, :-1], tokens[:, 1:]


def sequences():
    return torch.randn(16, 12, 8), torch.randint(0, 5, (16,))


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


MODELS = {
    "MLP, SGD": (mlp, vectors, momentum),
    "ResNet-18 with 8 to 64 channels, 32 x 32, SGD": (resnet, images, momentum),
    "GPT of 4 layers, AdamW": (Gpt, sentences, adam),
    "LSTM of 2 layers, AdamW": (Lstm, sequences, adam),
}


def train(name, device, dtype=torch.float32, compiled=False):
    """Return the losses of all steps; ``compiled`` is the model by torch.compile."""
    make, draw, optimize = MODELS[name]
    torch.manual_seed(0)
    model = make().to(device, dtype)
    x, y = (tensor.to(device) for tensor in draw())
    x = x.to(dtype) if x.is_floating_point() else x
    optimizer = optimize(model.parameters())
    if compiled:
        model = torch.compile(model)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        scores = model(x)
        loss = functional.cross_entropy(scores.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def distance(expected, actual):
    """Return the largest relative difference of two lists of losses."""
    return max(abs(a - b) / abs(a) for a, b in zip(expected, actual, strict=True))


def main():
    chosen = sys.argv[1:] or list(MODELS)
    torch.set_num_threads(1)
    for name in chosen:
        expected = train(name, "cpu")
        start = time.perf_counter()
        first = train(name, "cuda")
        seconds = time.perf_counter() - start
        second = train(name, "cuda")
        compiled = train(name, "cuda", compiled=True)
        exact = train(name, "cpu", torch.float64)
        record = {
            "name": name, "steps": STEPS, "first": first[0], "last": first[-1],
            "furthest": distance(expected, first), "compiled": distance(expected, compiled),
            "rounding": distance(exact, expected),
            "equal": first == second, "seconds": round(seconds, 1),
        }  # fmt: skip
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
