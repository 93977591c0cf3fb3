"""Packages whose ``__init__`` runs at the first access to an attribute, not at import.

``import kubernetes`` runs every part of the client, including streams, OIDC log-in, YAML and
leader election. These take 7 MiB in each node's agent, in the operator and in the console, none of
which uses them.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package whose modules can be imported without running its ``__init__``."""

    def __getattr__(self, name: str) -> Any:
        """Return the module of that name, or else the attribute after running ``__init__``."""
        if name.startswith("__"):  # attributes that the import system reads
            raise AttributeError(name)
        if importlib.util.find_spec(f"{self.__name__}.{name}") is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None
        assert self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def install(name: str, **constants: str) -> None:
    """Make the package ``name`` lazy, unless it is imported already.

    ``constants`` are attributes that can be read without running the package's ``__init__``.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = LazyPackage(name)
    package.__spec__, package.__path__ = spec, spec.submodule_search_locations or []
    package.__file__, package.__package__ = spec.origin, name
    package.__dict__.update(constants)
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:  # as an import does: a parent that has run its __init__ is no longer lazy
        setattr(sys.modules[parent], child, package)
