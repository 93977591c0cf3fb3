"""Trains a model on the device until the process is killed, in an environment with PyTorch.

Runs in the environment's own Python, which has no packages of the tests.
"""

import torch
from torch import nn


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(32, generator=generator), index % 10


def main():
    print("ready", flush=True)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler()
    given, graph = torch.zeros(64, 32, device="cuda"), torch.cuda.CUDAGraph()
    with torch.no_grad():
        model(given)
        with torch.cuda.graph(graph):
            found = model(given)
    while True:
        batches = torch.utils.data.DataLoader(
            Samples(), batch_size=64, num_workers=1, pin_memory=True
        )
        for inputs, targets in batches:
            inputs, targets = inputs.cuda(non_blocking=True), targets.cuda(non_blocking=True)
            with torch.autocast("cuda", torch.float16):
                loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            given.copy_(inputs)
            graph.replay()
            if not torch.isfinite(found).all():
                raise SystemExit("a result is not finite")
        large = torch.empty(64 << 20, dtype=torch.uint8, device="cuda").zero_()
        del large
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
