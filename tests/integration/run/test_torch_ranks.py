"""Process groups of PyTorch with NCCL.

Skipped where PyTorch's wheel is not installed (``support.processes.torch_program``).
"""

from pathlib import Path

import pytest

from support.processes.torch_program import run_program

_ONE_RANK = """
import sys, torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

def train(model, device):
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    given = torch.arange(216.0, device=device).view(2, 3, 6, 6).sin()
    for _ in range(3):
        steps.zero_grad()
        cross_entropy(model(given).mean((2, 3)), torch.tensor([1, 3], device=device)).backward()
        steps.step()
    return [one.detach().cpu() for one in model.state_dict().values()]

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
copy = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
copy.load_state_dict(model.state_dict())
distributed.init_process_group("nccl", f"file://{sys.argv[1]}", rank=0, world_size=1)
x = torch.arange(4.0, device="cuda")
for reduction in ("SUM", "AVG", "MAX", "PRODUCT"):
    distributed.all_reduce(x, getattr(distributed.ReduceOp, reduction))
distributed.broadcast(x, 0)
others = [torch.empty_like(x) for _ in range(5)]
distributed.all_gather([others[0]], x)
distributed.all_gather_into_tensor(others[1], x)
distributed.reduce_scatter_tensor(others[2], x)
distributed.gather(x, [others[3]])
distributed.scatter(others[4], [x])
distributed.barrier()
assert all(one.tolist() == [0, 1, 2, 3] for one in (x, *others)), (x, others)
assert distributed.new_group([0]) is not None
joint = nn.SyncBatchNorm.convert_sync_batchnorm(copy).cuda()
found = train(nn.parallel.DistributedDataParallel(joint, device_ids=[0]), "cuda")
for one, other in zip(found, train(model, "cpu"), strict=True):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
distributed.destroy_process_group()
print("joined")
"""


@pytest.mark.slow
def test_one_rank_communicates_by_nccl(tmp_path: Path) -> None:
    assert run_program(_ONE_RANK, str(tmp_path / "store")).endswith("joined\n")


_TWO_RANKS = """
import os, subprocess, sys, torch
from torch import distributed, nn

if len(sys.argv) == 3:
    command = [sys.executable, "-c", sys.argv[2], sys.argv[1], sys.argv[2]]
    running = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
    sys.exit(max(one.wait() for one in running))

def train(model, given, wanted):
    steps = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        steps.zero_grad()
        nn.functional.mse_loss(model(given), wanted).backward()
        steps.step()

def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))

rank = int(sys.argv[3])
torch.cuda.set_device(rank)
distributed.init_process_group("nccl", f"file://{sys.argv[1]}", rank=rank, world_size=2)
whole, alone = [torch.arange(64.0).view(8, 8).sin(), torch.arange(24.0).view(8, 3).cos()], layers()
train(alone, *whole)
mine = [one[4 * rank:4 * rank + 4].cuda() for one in whole]
joint = nn.parallel.DistributedDataParallel(layers().cuda(), device_ids=[rank])
train(joint, *mine)
sharded = layers().cuda()
distributed.fsdp.fully_shard(sharded)
train(sharded, *mine)
whole_of = lambda one: one.full_tensor() if hasattr(one, "full_tensor") else one
for model in (joint, sharded):
    for one, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(whole_of(one).detach().cpu(), other.detach(), rtol=1e-4, atol=1e-5)
x = torch.full((5,), rank + 1.0, device="cuda", dtype=torch.bfloat16)
distributed.all_reduce(x)
assert x.tolist() == [3] * 5
given = torch.arange(4, device="cuda") + 10 * rank
taken = torch.empty_like(given)
distributed.all_to_all_single(taken, given)
assert taken.tolist() == [2 * rank, 2 * rank + 1, 10 + 2 * rank, 11 + 2 * rank]
(distributed.recv if rank else distributed.send)(x, 1 - rank)
alone_group = distributed.new_group([1])
objects = [None, None]
distributed.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
distributed.barrier()
distributed.destroy_process_group()
os.write(1, b"joined\\n")
"""


@pytest.mark.slow
def test_two_ranks_train_and_communicate_by_nccl(tmp_path: Path) -> None:
    said = run_program(_TWO_RANKS, str(tmp_path / "store"), _TWO_RANKS, devices=2)
    assert said == "joined\n" * 2
