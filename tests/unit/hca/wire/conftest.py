"""Fixtures: queue pairs on a wire between two engines."""

from collections.abc import Iterator

import pytest

from hca.binding.engine import Engine
from support.wire import wire_rig
from support.wire.wire_judging import Node, listening


@pytest.fixture
def pair(engines: list[Engine]) -> Iterator[wire_rig.Ends]:
    """The two ends of a reliable connection."""
    with wire_rig.ends(*engines) as made:
        yield made


@pytest.fixture
def listeners(engines: list[Engine]) -> Iterator[tuple[Node, Node]]:
    """Two nodes whose queue pairs take datagrams."""
    with listening(*engines) as made:
        yield made
