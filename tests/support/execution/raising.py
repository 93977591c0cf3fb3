"""The driver API of ``cuda.bindings`` with exceptions."""

from typing import Any


class Refused(Exception):
    """A failed API call; ``code`` is the CUresult."""

    def __init__(self, code: Any) -> None:
        super().__init__(code.name)
        self.code = int(code)


class Raising:
    """cuda.bindings.driver with functions that return their results or raise ``Refused``."""

    def __init__(self, bindings: Any) -> None:
        self._bindings = bindings

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bindings, name)
        if not name.startswith("cu") or isinstance(found, type):
            return found

        def call(*arguments: Any) -> Any:
            status, *results = found(*arguments)
            if int(status):
                raise Refused(status)
            return results[0] if len(results) == 1 else tuple(results)

        return call

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function and return the CUresult as a number."""
        return int(getattr(self._bindings, name)(*arguments)[0])
