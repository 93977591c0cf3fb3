"""LLVM: text to object code. Imported lazily; initialises LLVM on first use.

The pass list is short: measurements show that O2 doubles the compile time without a gain, and that
the loop and SLP vectorisers undo the plan. There is no value numbering among the passes:
``text.value_numbering`` does that while the text is written, since an assertion in LLVM's own pass
aborts the process. Code generation runs at level 1, which lacks the post-register-allocation
scheduler: with it, large kernels would compile for minutes instead of seconds.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from llvmlite import binding

from vgpu_sim.exec.errors import CodeGenerationError
from vgpu_sim.records import dataclass
from vgpu_sim.system import tiles

_SHORT = (
    "sroa",
    "simplify_cfg",
    "instruction_combine",
    "jump_threading",
    "loop_rotate",
    "loop_unroll",
    "instruction_combine",
    "simplify_cfg",
)


@dataclass(frozen=True, slots=True)
class Target:
    """The kind of machine for which code is generated, in LLVM's spelling. This process can load
    code only if the code was generated for the machine on which the process runs.
    """

    triple: str
    cpu: str
    features: str


AVX2 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2,+fma,+f16c,+bmi,+bmi2")
NEON = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
SVE = Target("aarch64-unknown-linux-gnu", "neoverse-v1", "+neon,+sve")

_chosen: ContextVar[Target | None] = ContextVar("target", default=None)


@contextmanager
def generating_for(target: Target) -> Iterator[None]:
    """Within the ``with`` block, generate code for another machine, in this thread only."""
    token = _chosen.set(target)
    try:
        yield
    finally:
        _chosen.reset(token)


def target() -> Target:
    """Return the machine for which code is generated: this one, unless another was selected."""
    return _chosen.get() or _host()


@functools.cache
def _host() -> Target:
    triple = binding.get_default_triple()
    features = binding.get_host_cpu_features().flatten()
    if not tiles.request():
        features = features.replace("+amx-", "-amx-")
    return Target(triple, binding.get_host_cpu_name(), features)


@functools.cache
def _initialise(*, all_targets: bool = False) -> None:
    _set_options()
    if all_targets:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    else:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()


@functools.cache  # LLVM accepts an option only once
def _set_options() -> None:
    # Merging adjacent stores takes minutes if there are hundreds in a row.
    binding.set_option("", "-combiner-store-merging=false")


def cpu() -> tuple[str, str]:
    """Return the name and features of the CPU for which code is generated, as LLVM spells them."""
    return target().cpu, target().features


def is_x86() -> bool:
    """Return whether the CPU for which code is generated is an x86-64."""
    return target().triple.startswith("x86_64")


def vector_bits() -> int:
    """Return the width in bits of the vector registers of the CPU for which code is generated.

    It is 128 on Arm, since SVE has no fixed width.
    """
    features = cpu()[1].split(",")
    if "+avx512vl" in features and "+avx512dq" in features and "+avx512bw" in features:
        return 512
    return 256 if "+avx2" in features else 128


def version() -> str:
    """Return the version of LLVM as text."""
    return ".".join(map(str, binding.llvm_version_info))


def _machine(tier: int) -> Any:
    return _machine_of(target(), tier)


@functools.cache
def _machine_of(target: Target, tier: int) -> Any:
    _initialise(all_targets=target != _host())
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=tier, reloc="pic", codemodel="small"
    )


def object_code(text: str, tier: int) -> bytes:
    """Compile a module's text to object code.

    Raises:
        CodeGenerationError: LLVM rejects the text, or cannot emit code for it.
    """
    module, machine = _parse(text, tier)
    try:
        code: bytes = machine.emit_object(module)
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM emitted no code: {error}") from error
    return code


def optimise(text: str, tier: int) -> str:
    """Return a module's text after LLVM's passes. Raises the same exceptions as ``object_code``."""
    return str(_parse(text, tier)[0])


def assembly(text: str, tier: int) -> str:
    """Return a module's machine code as text. Raises the same exceptions as ``object_code``."""
    module, machine = _parse(text, tier)
    return str(machine.emit_assembly(module))


def _parse(text: str, tier: int) -> tuple[Any, Any]:
    machine = _machine(tier)
    try:
        module = binding.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM rejected the generated text: {error}") from error
    if tier:
        _run_passes(module, machine)
    return module, machine


def _run_passes(module: Any, machine: Any) -> None:
    options = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = binding.create_pass_builder(machine, options)
    manager = binding.create_new_function_pass_manager()
    for name in _SHORT:
        getattr(manager, f"add_{name}_pass")()
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)


def session() -> Any:
    """Return a new linker session. Code that it links cannot refer to symbols of this process.

    JITLink maps an object as one piece. LLVM's older linker maps each section separately. It
    aborts the process if the operating system maps two sections too far apart for 32-bit
    offsets.
    """
    _initialise()
    return binding.create_lljit_compiler(_machine(1), use_jit_link=True)
