"""A small GPT over bytes, in plain PyTorch."""

import torch
from torch import nn
from torch.nn import functional

CONTEXT = 64
BYTES = 256


class Block(nn.Module):
    """Causal self-attention and a perceptron, both with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.queries_keys_values(self.before_attention(x))
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in mixed.chunk(3, -1)
        )
        attention = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(x)


class GPT(nn.Module):
    """Predicts the next byte at each position."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, BYTES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.bytes(x) + self.positions(positions)))


@torch.no_grad()
def generate(model: GPT, prompt: bytes, length: int, device: str) -> bytes:
    """Return the prompt and ``length`` most probable bytes after it."""
    text = torch.tensor([list(prompt)], device=device)
    for _ in range(length):
        following = model(text[:, -CONTEXT:])[:, -1].argmax(-1, keepdim=True)
        text = torch.cat((text, following), 1)
    return bytes(text[0].tolist())
