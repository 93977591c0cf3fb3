"""Tables on the device that transforms of one length share."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch

_KEPT: Final = 16


class Tables:
    """The last tables that were used, and all that captured CUDA graphs read."""

    def __init__(self, make: Callable[..., tuple[Any, ...]]) -> None:
        self._make = make
        self._recent: OrderedDict[Any, tuple[Any, ...]] = OrderedDict()
        self._captured: dict[Any, tuple[Any, ...]] = {}
        self._lock = threading.Lock()

    def get(self, name: str, device: Any, *key: int) -> tuple[Any, ...]:
        """Return the tables of a key, which work on the current stream may read from now on.

        Raises:
            NotImplementedError: a CUDA graph is captured, and there are no tables yet.
        """
        with torch.cuda.device(device):
            capturing = torch.cuda.is_current_stream_capturing()
            stream = torch.cuda.current_stream()
            with self._lock:
                tables = self._captured.get((device, *key)) or self._recent.get((device, *key))
            if tables is None:
                if capturing:
                    raise NotImplementedError(
                        f"aten::{name} of length {key[0]} was not computed before the CUDA graph"
                        " that is captured: its tables are copied from the host. Compute it once"
                        " outside of the graph"
                    )
                tables = self._make(device, *key)
                stream.synchronize()  # other streams read the tables without an event
            with self._lock:
                if capturing:
                    self._captured[(device, *key)] = tables  # a replay reads them at any time
                self._recent[(device, *key)] = tables
                self._recent.move_to_end((device, *key))
                while len(self._recent) > _KEPT:
                    self._recent.popitem(last=False)
            if not capturing:
                for table in tables:
                    table.record_stream(stream)
        return tables
