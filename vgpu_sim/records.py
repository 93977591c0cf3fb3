"""``dataclass`` of the standard library, which generates a class's methods when it is first used.

The standard decorator compiles ``__init__``, ``__eq__``, ``__repr__`` and others from text while a
module is imported: half a millisecond for each class, which was half of the time that a daemon
took to start. A process uses few of the classes that it imports. The decorator here has the
standard one generate the same methods when the first of them is called, or when
``dataclasses.fields`` and its like read the class. It therefore reports on first use what the
standard decorator reports on import, such as a default before a field without one.

A process that forks others generates all that is left before it does (``complete_all``), so that
not each of its children has to.
"""

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> Any:
        """Do as ``dataclasses.dataclass`` does; later, if the class has slots."""
        if not slots:
            return dataclasses.dataclass(cls, **options)
        return _with_slots(cls, options) if cls else lambda one: _with_slots(one, options)


_READ_ON_THE_CLASS: Final = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

_completions: Final[list[Callable[[], None]]] = []


def complete_all() -> None:
    """Generate the methods of all classes that exist and have not been used."""
    while _completions:
        _completions.pop()()


class _Late:
    """An attribute of a class that ``complete`` replaces."""

    def __init__(self, name: str, complete: Callable[[], type]) -> None:
        self._name = name
        self._complete = complete

    def __get__(self, instance: object, owner: type) -> Any:
        return getattr(self._complete(), self._name)


def _with_slots(cls: type, options: dict[str, bool]) -> type:
    """Return a class of the same name with slots, whose methods are generated on first use."""
    names = [name for name, kind in inspect.get_annotations(cls).items() if _is_field(kind)]
    content = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    late: dict[str, Any] = {}

    def complete() -> type:
        # Threads may come here at the same time: each generates equal methods from a class of its
        # own, so no lock exists that a fork could leave locked.
        model = type(cls)(cls.__name__, cls.__bases__, dict(content))
        model.__qualname__ = cls.__qualname__
        old_attributes = dict(vars(model))
        dataclasses.dataclass(**options)(model)
        for name, value in list(vars(model).items()):
            if name not in names and old_attributes.get(name, late) is not value:
                setattr(slotted_class, name, value)
        for name, stub in late.items():
            if vars(slotted_class).get(name) is stub:
                with contextlib.suppress(AttributeError):  # another thread was faster
                    delattr(slotted_class, name)
        return slotted_class

    for name in _generated(content, options):
        late[name] = _method(name, complete)
    for name in _READ_ON_THE_CLASS:
        if name not in content:
            late[name] = _Late(name, complete)
    inherited = {slot for base in cls.__mro__[1:-1] for slot in getattr(base, "__slots__", ())}
    body = {name: value for name, value in content.items() if name not in names} | late
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    if options.get("frozen"):
        body.setdefault("__getstate__", _get_state)
        body.setdefault("__setstate__", _set_state)
    if body.get("__hash__") is None and options.get("eq", True) and "__hash__" not in late:
        body["__hash__"] = None
    slotted_class = type(cls)(cls.__name__, cls.__bases__, body)
    slotted_class.__qualname__ = cls.__qualname__
    _completions.append(functools.partial(_complete_unless_used, slotted_class, late, complete))
    return slotted_class


def _complete_unless_used(
    slotted_class: type, late: dict[str, Any], complete: Callable[[], type]
) -> None:
    if any(vars(slotted_class).get(name) is stub for name, stub in late.items()):
        complete()


def _is_field(kind: Any) -> bool:
    """Return whether an annotation is that of a field with a slot."""
    if isinstance(kind, str) and ("ClassVar" in kind or "InitVar" in kind):
        raise TypeError(f"write this annotation without quotes: {kind}")
    if kind is ClassVar or get_origin(kind) is ClassVar or kind is dataclasses.KW_ONLY:
        return False
    return kind is not dataclasses.InitVar and not isinstance(kind, dataclasses.InitVar)


def _generated(content: dict[str, Any], options: dict[str, bool]) -> list[str]:
    """Return the methods that the standard decorator will generate, of those of each object."""
    names = ["__init__"] if options.get("init", True) and "__init__" not in content else []
    own = ["__repr__"] if options.get("repr", True) else []
    if options.get("eq", True):
        own.append("__eq__")
        if options.get("frozen") and content.get("__hash__") is None:
            names.append("__hash__")
    names += [name for name in own if name not in content]
    if options.get("order"):
        names += ["__lt__", "__le__", "__gt__", "__ge__"]
    if options.get("frozen"):
        names += ["__setattr__", "__delattr__"]
    return names


def _method(name: str, complete: Callable[[], type]) -> Callable[..., Any]:
    def call(self: object, *arguments: Any, **named: Any) -> Any:
        return getattr(complete(), name)(self, *arguments, **named)

    return call


# As in the standard library: the default of both sets attributes, which a frozen class refuses.
def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
