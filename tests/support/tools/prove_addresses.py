"""``make fuzz proofs=1``: prove the clamp of random address computations; resume the last run.

    make fuzz proofs=1 n=1000 minutes=10     stops at the first limit; state: .fuzz/proofs.json

Six kinds in turn: instructions of the ISA that compute addresses; the same with shared memory;
PTX that accesses memory in every form (atomics, cp.async, ldmatrix and mma, generic, local,
calls); loops that move pointers; the kernels of ``make fuzz``; and kernels of clusters. Prints each
kernel that was not proved safe; exits with 1 if there was one, in any run.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support.fuzzers.fuzzing import command, trial
from support.kernels import random_addresses
from support.kernels.random_kernels import (
    clusters,
    functions,
    kernels,
    loops,
    meetings,
    reaches,
)
from support.kernels.random_kernels.kernels import Kernel
from support.proofs import clamp_proof
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.target import llvm
from vgpu_sim.isa import Module

GOAL = 100_000
_CAPABILITY = (10, 0)
Block = tuple[int, int, int]
_CPUS = (None, None, llvm.AVX2, llvm.NEON)
_CASES: tuple[tuple[Block, jit.Plan | None], ...] = (
    ((64, 1, 1), jit.Plan(16, 2)),
    ((64, 1, 1), jit.Plan(1, 1)),
    ((32, 4, 1), jit.Plan(16, 4)),
    ((7, 3, 1), jit.Plan(1, 1)),
    ((64, 1, 1), None),
)
_RUNNING = (kernels.generate, functions.generate, meetings.generate)
_SAVED_EVERY = 20


def prove(seed: int, *, shared: bool = False) -> int:
    """Prove one seed's kernel of the ISA; return its number of accesses.

    Raises:
        clamp_proof.NotShown: an access was not proved safe.
    """
    module = random_addresses.kernel(seed, shared=shared)
    block, plan = _CASES[seed % len(_CASES)]
    return clamp_proof.prove(_text(seed, module, block, plan))


def prove_ptx(kernel: Kernel) -> int:
    """Prove a PTX kernel under a plan chosen by its seed. Returns and raises as ``prove``."""
    module = compile_ptx(kernel.text, capability=_CAPABILITY)
    (plan,) = trial.choose_plans(kernel, module, 0)
    return clamp_proof.prove(_text(kernel.seed, module, kernel.block, plan))


def prove_cluster(seed: int) -> int:
    """Prove one seed's kernel for clusters. Returns and raises as ``prove``."""
    kernel = clusters.generate(seed)
    module, block = compile_ptx(kernel.text, capability=_CAPABILITY), (kernel.threads, 1, 1)
    plans = [None, *itertools.islice(jit.legal_plans(module.functions[0], block), 4)]
    return clamp_proof.prove(_text(seed, module, block, plans[seed % len(plans)]))


def _text(seed: int, module: Module, block: Block, plan: jit.Plan | None) -> str:
    """Return the kernel's LLVM IR for this machine, or for a CPU with other instructions."""
    cpu = _CPUS[seed % len(_CPUS)]
    with llvm.generating_for(cpu) if cpu else nullcontext():
        return jit.Compiler().emit_llvm(module, module.functions[0], block, plan)


KINDS: dict[str, Callable[[int], int]] = {
    "words": prove,
    "words, shared": lambda seed: prove(seed, shared=True),
    "every form": lambda seed: prove_ptx(reaches.generate(seed)),
    "loops": lambda seed: prove_ptx(loops.generate(seed)),
    "clusters": prove_cluster,
    "running": lambda seed: prove_ptx(_RUNNING[seed % len(_RUNNING)](seed)),
}


@dataclass
class State:
    """The totals of all runs."""

    done: int = 0
    accesses: int = 0
    failed: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Prove the next kernel."""
        kind, seed = list(KINDS)[self.done % len(KINDS)], self.done // len(KINDS)
        try:
            self.accesses += KINDS[kind](seed)
        except Exception as error:  # noqa: BLE001 - after any error nothing is proved
            self.failed.append(f"{kind}, seed {seed}: {type(error).__name__}: {error}"[:400])
            print(self.failed[-1])
        self.done += 1

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        os.replace(new, path)

    def summary(self) -> str:
        return (
            f"{self.done} of {GOAL} kernels, {self.accesses} accesses, "
            f"{len(self.failed)} kernels not shown to be safe"
        )


def main(arguments: list[str]) -> int:
    """Prove kernels according to ``name=value`` arguments; empty values select the defaults."""
    names = ("minutes", "folder")
    defaults = {"n": str(GOAL), **{name: command.DEFAULTS[name] for name in names}}
    chosen = command.parse_arguments(arguments, defaults)
    if chosen is None:
        return 2
    path = Path(chosen["folder"]) / "proofs.json"
    state = State(**json.loads(path.read_text())) if path.exists() else State()
    until = time.monotonic() + 60 * float(chosen["minutes"])
    end = state.done + int(chosen["n"])
    try:
        while state.done < end and time.monotonic() < until:
            state.step()
            if state.done % _SAVED_EVERY == 0:
                state.save(path)
    except KeyboardInterrupt:
        print("stopped; the next run continues from here")
    state.save(path)
    print(state.summary())
    return 1 if state.failed else 0


if __name__ == "__main__":
    command.stop_on_signal()
    sys.exit(main(sys.argv[1:]))
