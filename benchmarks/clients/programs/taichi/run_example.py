"""Run one of Taichi's examples on ``cpu`` or ``cuda``, without a window, for a few frames.

    python run_example.py EXAMPLE ARCHITECTURE OUTPUT

What the example draws is kept in OUTPUT (npz). After the last frame the example ends.
"""

import contextlib
import itertools
import random
import runpy
import sys
import time
import typing
from pathlib import Path

import numpy as np
import taichi as ti

FRAMES = 2
COMPUTES_NOTHING = 77
MOST_ARRAYS = 64


class Finished(BaseException):
    """The last frame has been drawn; examples catch no such exception."""


class Value:
    """A slider, label or button."""

    def __init__(self, value):
        self.value = value


class Recorder:
    """What examples use of ``ti.GUI``: keeps arrays that are drawn, and has no input."""

    drawn: typing.ClassVar[list] = []
    ESCAPE, SPACE, LMB, RMB, PRESS, RELEASE = "Escape", " ", "LMB", "RMB", "Press", "Release"
    EXIT, MOVE, MOTION, RETURN = "WMClose", "Motion", "Motion", "Return"
    LEFT, RIGHT, UP, DOWN = "Left", "Right", "Up", "Down"

    def __init__(self, name="", res=512, *_, **__):
        self.name, self.res = name, (res, res) if isinstance(res, int) else tuple(res)
        self.frame, self.running, self.event, self.fps_limit = 0, True, None, None

    def _keep(self, array):
        array = array.to_numpy() if hasattr(array, "to_numpy") else np.array(array)
        if len(Recorder.drawn) < MOST_ARRAYS and array.dtype != object:
            Recorder.drawn.append(np.asarray(array, dtype=np.float64))

    def set_image(self, image):
        self._keep(image)

    def circles(self, positions, *_, **__):
        self._keep(positions)

    def lines(self, begin, end, *_, **__):
        self._keep(begin)
        self._keep(end)

    def triangles(self, a, b, c, *_, **__):
        for corner in (a, b, c):
            self._keep(corner)

    def arrows(self, origin, direction, *_, **__):
        self._keep(direction)

    def get_event(self, *_):
        return False

    def get_events(self, *_):
        return []

    def is_pressed(self, *_):
        return False

    def get_cursor_pos(self):
        return 0.5, 0.5

    def slider(self, _, minimum, maximum, step=1):
        return Value(minimum)

    def label(self, _):
        return Value(0)

    def button(self, _, event_name=None):
        return event_name or ""

    def show(self, *_):
        self.frame += 1
        if self.frame >= FRAMES:
            raise Finished

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def main():
    example, architecture, output = sys.argv[1:4]
    real_init = ti.init

    def init(arch=None, **options):
        for name in ("device_memory_GB", "device_memory_fraction"):
            options.pop(name, None)
        real_init(arch=getattr(ti, architecture), **{**options, "random_seed": 1})

    ti.init, ti.GUI = init, Recorder
    ti.tools.imshow = lambda *_, **__: None
    ticks = itertools.count()
    time.time = time.perf_counter = lambda: next(ticks) / 64
    time.time_ns = lambda: next(ticks) * 10**9 // 64
    np.random.seed(1)
    random.seed(1)
    sys.path[0] = str(Path(example).parent)
    sys.argv = [example]
    with contextlib.suppress(Finished):
        runpy.run_path(example, run_name="__main__")
    if ti.lang.impl.get_runtime().prog is None:
        sys.exit(COMPUTES_NOTHING)
    if architecture == "cuda":
        arch = ti.lang.impl.current_cfg().arch
        assert arch == ti.cuda, f"ran on {arch}"
    np.savez(output, *Recorder.drawn)


if __name__ == "__main__":
    main()
