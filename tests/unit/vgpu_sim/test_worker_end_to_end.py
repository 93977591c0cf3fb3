"""A real zygote forks a real worker; a client loads PTX and computes through the ring."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from worker_client import Zygote, running_client

VECADD = (Path(__file__).parents[3] / "examples/vecadd.ptx").read_bytes()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.parametrize("backend", ["interp", "jit"])
def test_vecadd(zygote: Zygote, backend: str) -> None:
    count = 10_000
    with running_client(zygote, backend=backend) as client:
        assert client.ready.status == 0
        module = client.load(VECADD)
        assert (module.status, module.log) == (0, "")
        vecadd = module.functions["vecadd"]
        assert vecadd.parameter_bytes == 28
        memory = [client.allocate(4 * count) for _ in range(3)]
        a, b, c = (np.frombuffer(m.alias, dtype=np.float32)[:count] for m in memory)
        random = np.random.default_rng(0)
        a[:], b[:] = random.random((2, count), dtype=np.float32)
        parameters = struct.pack("<QQQi", *(m.address for m in memory), count)
        value = client.launch(vecadd.kernel, (-(-count // 256), 1, 1), (256, 1, 1), parameters)
        client.wait(0, value)
        np.testing.assert_array_equal(c, a + b)
