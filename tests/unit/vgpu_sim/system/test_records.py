"""``vgpu_sim.records.dataclass``: the standard decorator's classes, whose methods are made late."""

import copy
import dataclasses
import importlib
import pkgutil
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, field, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from vgpu_sim import records

_T = TypeVar("_T")
_Decorator = Callable[..., Any]


def _family(dataclass: _Decorator) -> dict[str, Any]:
    """Return classes of every form that the product uses, decorated by ``dataclass``."""

    class Shape(ABC):
        __slots__ = ()

        @abstractmethod
        def area(self) -> int: ...

    @dataclass(frozen=True, slots=True)
    class Square(Shape):
        """A square."""

        count: ClassVar[int] = 7
        side: int
        names: tuple[str, ...] = ("square",)

        def area(self) -> int:
            return self.side * self.side

    @dataclass(frozen=True, slots=True)
    class Cube(Square):
        height: int = 1
        tags: list[str] = field(default_factory=list, compare=False, repr=False)

    @dataclass(slots=True)
    class Cell(Generic[_T]):
        value: _T
        _: KW_ONLY
        label: str = "cell"

        def __post_init__(self) -> None:
            self.label += "!"

    @dataclass(slots=True, eq=False)
    class Node:
        name: str

    @dataclass(frozen=True, slots=True, order=True)
    class Version:
        major: int
        minor: int = 0

        def __repr__(self) -> str:
            return f"v{self.major}.{self.minor}"

    @dataclass(frozen=True, slots=True)
    class Loose:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    @dataclass
    class Plain:
        text: str = "plain"

    found = (Square, Cube, Cell, Node, Version, Loose, Plain)
    return {one.__name__: one for one in found}


class _Family(SimpleNamespace):
    def __init__(self, decorator: _Decorator) -> None:
        super().__init__(**_family(decorator))


def _attempt(action: Callable[[], Any]) -> str:
    """Return the representation of a result or an exception, without the place of classes."""
    try:
        return repr(action())
    except (AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "construct": lambda f: f.Square(3),
    "construct by name": lambda f: f.Cube(side=2, height=5),
    "no argument": lambda f: f.Square(),
    "unknown argument": lambda f: f.Square(1, size=2),
    "positional after KW_ONLY": lambda f: f.Cell(1, "a"),
    "post-init": lambda f: f.Cell(1).label,
    "method": lambda f: f.Cube(4).area(),
    "class variable": lambda f: (f.Square.count, f.Square(1).count),
    "default is no class attribute": lambda f: type(f.Square.names).__name__,
    "no dictionary": lambda f: hasattr(f.Square(1), "__dict__"),
    "slots": lambda f: (f.Square.__slots__, f.Cube.__slots__, f.Cell.__slots__),
    "set a field of a frozen object": lambda f: setattr(f.Square(1), "side", 2),
    "delete a field of a frozen object": lambda f: delattr(f.Square(1), "side"),
    "set a field": lambda f: setattr(f.Cell(1), "value", 2),
    "set another attribute": lambda f: setattr(f.Cell(1), "other", 2),
    "equal": lambda f: (f.Square(1) == f.Square(1), f.Square(1) == f.Square(2)),
    "never equal to a subclass": lambda f: f.Square(1) == f.Cube(1),
    "a field without comparison": lambda f: f.Cube(1, tags=["a"]) == f.Cube(1),
    "hash": lambda f: hash(f.Square(1)) == hash(f.Square(1)),
    "hash of a changeable object": lambda f: hash(f.Cell(1)),
    "no hash on the class": lambda f: f.Cell.__hash__,
    "identity": lambda f: (f.Node("a") == f.Node("a"), isinstance(hash(f.Node("a")), int)),
    "order": lambda f: (f.Version(1, 2) < f.Version(1, 10), f.Version(2) >= f.Version(1)),
    "order of other types": lambda f: f.Version(1) < f.Square(1),
    "own representation": lambda f: f.Version(1, 2),
    "own equality": lambda f: (f.Loose("A") == f.Loose("a"), hash(f.Loose("A")) == hash("a")),
    "fields": lambda f: [(one.name, one.default) for one in fields(f.Cube) if one.name != "tags"],
    "is a dataclass": lambda f: dataclasses.is_dataclass(f.Cube),
    "parameters": lambda f: f.Version.__dataclass_params__,
    "match arguments": lambda f: (f.Cube.__match_args__, f.Cell.__match_args__),
    "replace": lambda f: dataclasses.replace(f.Cube(1), height=9),
    "as a dictionary": lambda f: dataclasses.asdict(f.Cube(1, tags=["a"])),
    "copy": lambda f: copy.deepcopy(f.Cube(1, tags=["a"])).tags,
    "new without fields": lambda f: f.Square.__new__(f.Square) == f.Square(1),
    "compare before any object is made": lambda f: f.Square.__eq__(1, 2),
    "a generic class": lambda f: f.Cell[int](3),
    "abstract methods": lambda f: f.Square.__abstractmethods__,
    "documentation": lambda f: (f.Square.__doc__, f.Square.__module__, f.Square.__qualname__),
    "without slots": lambda f: vars(f.Plain()),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_each_action_has_the_standard_decorator_s_result(name: str) -> None:
    late, standard = _Family(records.dataclass), _Family(dataclasses.dataclass)
    first = _attempt(lambda: ACTIONS[name](late))
    assert first == _attempt(lambda: ACTIONS[name](standard))
    assert first == _attempt(lambda: ACTIONS[name](late)), "the second time is another"


def test_pattern_matching_reads_a_class_that_nothing_has_used() -> None:
    family = _Family(records.dataclass)
    other: object = 5
    match other:
        case family.Square(side):
            pytest.fail(f"5 is no square of {side}")
        case _:
            assert family.Square(3).side == 3


def test_a_class_keeps_an_init_of_its_own() -> None:
    @records.dataclass(slots=True)
    class Own:
        value: int

        def __init__(self, text: str) -> None:
            self.value = len(text)

    assert (Own("abc").value, Own("abc") == Own("xyz")) == (3, True)


def test_methods_are_generated_on_first_use_and_once() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Point:
        x: int

    stub = vars(Point)["__init__"]
    point = Point(1)
    made = vars(Point)["__init__"]
    assert made is not stub
    assert point == Point(1)
    assert vars(Point)["__init__"] is made
    assert not any(value.__class__.__module__ == records.__name__ for value in vars(Point).values())


def test_an_annotation_in_quotes_that_may_be_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="without quotes: ClassVar"):

        @records.dataclass(slots=True)
        class Point:
            count: "ClassVar[int]" = 0


def test_threads_may_use_a_class_for_the_first_time_together() -> None:
    wrong: list[str] = []

    def use(one: Any, start: threading.Barrier) -> None:
        start.wait()
        try:
            if one(1) != one(1) or hash(one(2)) != hash(one(2)):
                wrong.append("not equal")
        except (AttributeError, TypeError) as error:
            wrong.append(repr(error))

    for _ in range(50):
        family, start = _family(records.dataclass), threading.Barrier(4)
        threads = [threading.Thread(target=use, args=(family["Cube"], start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_every_class_of_the_product_is_complete() -> None:
    """A wrong order of defaults, say, is reported here, as it is not reported on import."""
    checked = 0
    for package in ("vgpu_sim", "hca", "device_plugin"):
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            if module.name.endswith("__main__"):
                continue
            content = vars(importlib.import_module(module.name)).values()
            for one in content:
                if isinstance(one, type) and one.__module__ == module.name:
                    checked += dataclasses.is_dataclass(one) and len(fields(one)) >= 0
    assert checked > 400


@pytest.mark.parametrize("module", ["vgpu_sim.zygote", "vgpu_sim.gpud.daemon"])
def test_a_daemon_that_starts_generates_few_methods(module: str) -> None:
    """Most classes of a process are never used: generating all took half of its start."""
    counting = (
        "import dataclasses, sys\n"
        "made, generate = [], dataclasses._process_class\n"
        "def count(cls, *rest, **named):\n"
        "    made.append(cls)\n"
        "    return generate(cls, *rest, **named)\n"
        "dataclasses._process_class = count\n"
        f"import {module}\n"
        "print(len(made))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", counting], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 60


def test_a_zygote_leaves_no_methods_to_its_workers():
    """A class has functions that ``records._method`` made until its methods are generated."""
    text = (
        "import gc, sys\n"
        "from vgpu_sim import machine, zygote\n"
        "stub = lambda one: getattr(vars(one).get('__init__'), '__qualname__', '')\n"
        "late = lambda one: stub(one).startswith('_method.')\n"
        "count = lambda: sum(late(one) for one in gc.get_objects() if isinstance(one, type))\n"
        "before = count()\n"
        "machine.prepare()\n"
        "print(before > 20, count())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
