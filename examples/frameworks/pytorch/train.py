"""Train a small GPT on its own source text: ``python train.py [DEVICE]``; the default is cuda."""

import sys
import time
from pathlib import Path

import torch
from model import BYTES, CONTEXT, GPT, generate
from torch.nn import functional

device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
torch.manual_seed(0)
text = torch.tensor(list(Path(__file__).with_name("model.py").read_bytes()))
model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
print(f"torch {torch.__version__} on {device}", flush=True)
if device == "cuda":
    print(torch.cuda.get_device_name(), torch.cuda.get_device_properties().uuid, flush=True)

for step in range(20):
    started = time.perf_counter()
    starts = torch.randint(len(text) - CONTEXT - 1, (16,)).tolist()
    batch = torch.stack([text[start : start + CONTEXT + 1] for start in starts]).to(device)
    logits = model(batch[:, :-1])
    loss = functional.cross_entropy(logits.reshape(-1, BYTES), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.6f} {time.perf_counter() - started:.2f} s", flush=True)
print("generated", generate(model, b"    def ", 24, device))
