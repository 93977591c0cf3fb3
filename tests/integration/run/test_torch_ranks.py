"""A process group of PyTorch with NCCL, which has one rank on Tessera.

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
