"""Train on two slices of one GPU, alone and at the same time; print seconds and losses as JSON.

Runs in an environment with PyTorch, as ``tessera run --board h100-80gb --slice 1g.10gb --count 2
--threads 1 -- python slices.py``: each slice computes with one thread, on a core of its own.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time

ROUNDS = 7
STEPS = 8


def train():
    """Answer each line on standard input with the seconds of some steps and their last loss."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    sizes = (256, 1024, 1024, 256)
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(64, sizes[0], device="cuda")
    targets = torch.randint(sizes[-1], (64,), device="cuda")

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    def steps(count):
        for _ in range(count - 1):
            step()
        return step().item()

    steps(40)  # compiles, and then what has run for long once more (ADR 197)
    print("ready", flush=True)
    for _line in sys.stdin:
        start = time.perf_counter()
        loss = steps(STEPS)
        print(json.dumps([time.perf_counter() - start, loss]), flush=True)


class Trainer:
    """A process that trains on one slice."""

    def __init__(self, number):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(number)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "train"], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def start(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline()


def main():
    trainers = [Trainer(number) for number in range(2)]
    for trainer in trainers:
        if trainer.answer() != "ready\n":
            return 1
    seconds, losses = {"alone": ([], []), "together": ([], [])}, ([], [])
    for _ in range(ROUNDS):
        for groups, name in (((0,), (1,)), "alone"), (((0, 1),), "together"):
            for group in groups:
                for which in group:
                    trainers[which].start()
                for which in group:
                    duration_s, loss = json.loads(trainers[which].answer())
                    seconds[name][which].append(duration_s)
                    losses[which].append(loss)
    medians = {
        name: [statistics.median(durations) for durations in trainer_durations]
        for name, trainer_durations in seconds.items()
    }
    pairs = zip(medians["together"], medians["alone"], strict=True)
    print(
        json.dumps(
            {
                "rounds": ROUNDS,
                "steps": STEPS,
                "seconds": medians,
                "ratios": [round(together / alone, 3) for together, alone in pairs],
                "same losses": losses[0] == losses[1],
                "last loss": losses[0][-1],
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(train() if sys.argv[1:] == ["train"] else main())
