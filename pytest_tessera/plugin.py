"""The pytest plugin: options, the marker ``tessera`` and the fixture ``tessera_gpu``.

Every pytest run loads it if it is installed, so it imports the rest only when a test uses a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pytest_tessera.gpu import Gpu, Gpus

_MARKER: Final = (
    "tessera(board, slice, count, kernel_timeout, own): the simulated GPUs that the fixture"
    " tessera_gpu gives to this test"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the command-line options, which are the defaults of the marker's arguments."""
    group = parser.getgroup("tessera", "simulated GPUs (Tessera)")
    group.addoption(
        "--tessera-board",
        default="h100-80gb",
        metavar="BOARD",
        help="board of the fixture tessera_gpu (default: h100-80gb)",
    )
    group.addoption(
        "--tessera-slice",
        metavar="PROFILE",
        help="MIG profile of the fixture tessera_gpu, such as 1g.10gb (default: a whole GPU)",
    )
    group.addoption(
        "--tessera-count",
        type=int,
        default=1,
        metavar="N",
        help="number of GPUs or slices (default: 1)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture(scope="session")
def _tessera_gpus() -> Iterator[Gpus]:
    """The GPUs of this session, which tests with the same request share."""
    from pytest_tessera.gpu import Gpus

    with Gpus() as gpus:
        yield gpus


@pytest.fixture
def tessera_gpu(
    request: pytest.FixtureRequest, _tessera_gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gpu]:
    """Simulated GPUs for the programs that this test starts.

    While the test runs, the environment locates the GPUs: every program that the test starts finds
    them, for example with ``subprocess.run``. Libraries that are already loaded into the test's
    own process are not replaced.
    """
    from pytest_tessera.gpu import Request, RequestError

    option = request.config.getoption
    marker = request.node.get_closest_marker("tessera")
    if marker is not None and marker.args:
        pytest.fail("the marker tessera has keyword arguments only", pytrace=False)
    arguments = marker.kwargs if marker is not None else {}
    defaults = {
        "board": option("--tessera-board"),
        "slice": option("--tessera-slice"),
        "count": option("--tessera-count"),
    }
    if "board" in arguments:  # a profile of the command line may not exist on the test's board
        defaults |= {"slice": None}
    try:
        gpu_request = Request.from_arguments({**defaults, **arguments})
        with _tessera_gpus.provide(gpu_request) as gpu:
            for name, value in gpu.environment.items():
                monkeypatch.setenv(name, value)
            yield gpu
    except RequestError as err:
        # without the errors that caused it, which state the same
        raise pytest.fail.Exception(f"tessera_gpu: {err}", pytrace=False) from None
