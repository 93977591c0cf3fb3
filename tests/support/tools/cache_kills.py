"""``python tests/support/tools/cache_kills.py ROUNDS [SEED]``: kill -9 while the caches are used.

In each round processes that share one owner's caches load, compile and store until they are
killed at a random moment; a third trims meanwhile. A later load must return nothing, or the
whole entry stored under that name. Prints the outcome; exits 1 after a wrong load.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.objects import cache
from vgpu_sim.exec.jit.objects.compiler import content_key
from vgpu_sim.gpud.limits.caches import CacheOwner, OwnerCaches
from vgpu_sim.isa import Module, container
from vgpu_sim.worker.modules.container_cache import ContainerCache
from vgpu_sim.worker.modules.module_summary import summarise

BLOCK = (32, 1, 1)
MAX_BYTES, MAX_ENTRIES = 6 << 20, 40
_OWNER = CacheOwner("tenant", 0)
_KERNELS = 4
_BLOBS = 8
_WRONG = 3  # a child's exit status
_CAPABILITY = (9, 0)


def _ptx(number: int) -> str:
    body = "".join(f"xor.b32 %r1, %r1, {n * 77 + number};\n" for n in range(4))
    return f"""
.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{{
  .reg .b64 %d<2>; .reg .b32 %r<2>;
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x;
  {body}
  st.global.u32 [%d1], %r1;
  ret;
}}
"""


def _blob(number: int) -> bytes:
    """Return a body as large as that of a big kernel, so that kills interrupt writes."""
    return (b"%d " % number) * (60_000 * (number + 1))


class Rounds:
    """Rounds in one directory; ``outcomes`` counts the results of loads."""

    def __init__(self, root: Path, seed: int = 1) -> None:
        self._random = Random(seed)
        self._caches = OwnerCaches(root, False, MAX_BYTES, MAX_ENTRIES)
        self.directory = Path(self._caches.directory(_OWNER) or "")
        self._modules = [compile_ptx(_ptx(n), capability=_CAPABILITY) for n in range(_KERNELS)]
        plain = jit.Compiler()
        self._objects = [plain.compile(m, m.functions[0], BLOCK).to_bytes() for m in self._modules]
        self._keys = [content_key(m, m.functions[0], BLOCK, None) for m in self._modules]
        self._containers = ContainerCache(self.directory, _CAPABILITY, "jit")
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round()

    def round(self) -> None:
        """Start two users and one process that trims, kill them, and check the directory."""
        works = (self._use, self._use, self._trim)
        children = [self._child(work, self._random.getrandbits(32)) for work in works]
        time.sleep(self._random.random() ** 2 * 0.06)
        for child in self._random.sample(children, len(children)):
            os.kill(child, signal.SIGKILL)
        for child in children:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status != -signal.SIGKILL:
                self.wrong.append(f"a child ended with {status}")
        self._look()

    def trim(self) -> tuple[int, int]:
        """Trim; return the bytes and the number of files that remain."""
        OwnerCaches(self.directory.parent, False, MAX_BYTES, MAX_ENTRIES).trim(_OWNER)
        sizes = [path.stat().st_size for path in self.directory.iterdir()]
        return sum(sizes), len(sizes)

    def _child(self, work: object, seed: int) -> int:
        child = os.fork()
        if child:
            return child
        status = _WRONG
        try:
            work(Random(seed))  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - a forked child must end here
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)

    def _use(self, random: Random) -> None:
        compiler = jit.Compiler(self.directory)
        while True:
            which = random.randrange(_KERNELS + 2)
            if which < _KERNELS:
                module = self._modules[which]
                code = compiler.compile(module, module.functions[0], BLOCK)
                assert code.to_bytes() == self._objects[which], "another kernel's code"
                if random.random() < 0.5:
                    continue
                cache.store(self.directory, self._keys[which], self._objects[which])
            elif which == _KERNELS:
                number = random.randrange(_BLOBS)
                found = cache.load(self.directory, f"blob{number}")
                assert found in (None, _blob(number)), "another blob, or a torn one"
                cache.store(self.directory, f"blob{number}", _blob(number))
            else:
                self._use_containers(random.randrange(_KERNELS))

    def _use_containers(self, number: int) -> None:
        text, module = _ptx(number).encode(), self._modules[number]
        found = self._containers.load(text)
        if found is not None:
            assert self._is(module, found[1]), "another module"
        self._containers.store(text, summarise(module, ()), container.encode(module))

    def _trim(self, random: Random) -> None:
        while True:
            OwnerCaches(self.directory.parent, False, MAX_BYTES, MAX_ENTRIES).trim(_OWNER)
            time.sleep(random.random() * 0.01)

    @staticmethod
    def _is(module: Module, encoded: bytes) -> bool:
        return container.decode(encoded) == module

    def _look(self) -> None:
        expected = dict(zip(self._keys, self._objects, strict=True))
        expected |= {f"blob{number}": _blob(number) for number in range(_BLOBS)}
        for key, body in expected.items():
            self._note(cache.load(self.directory, key), body, key)
        for number, module in enumerate(self._modules):
            found = self._containers.load(_ptx(number).encode())
            self._note(found and found[1], container.encode(module), f"module {number}")

    def _note(self, found: bytes | None, body: bytes, what: str) -> None:
        self.outcomes["missed" if found is None else "hit"] += 1
        if found is not None and found != body:
            self.wrong.append(f"{what}: {len(found)} bytes that are not those stored")


def main(rounds: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="cache-kills-") as root:
        made = Rounds(Path(root), seed)
        made.run(rounds)
        held, files = made.trim()
        left = sum(1 for path in made.directory.iterdir() if path.suffix == ".new")
    print(f"{rounds} rounds, {3 * rounds} processes killed: {dict(made.outcomes)}")
    print(f"{held} bytes in {files} files remain after a trim, {left} of them unfinished")
    for one in made.wrong:
        print(f"WRONG: {one}")
    return 1 if made.wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int((*sys.argv, "1")[2])))
