"""LLVM: text to object code. Imported lazily; initialises LLVM on first use.

The pass list is short: measured, O2 costs twice the compile time and buys nothing, and the loop and
SLP vectorisers undo what the plan decided. There is no value numbering among the passes: ``known``
does that while the text is written, since an assertion in LLVM's own pass ends the process. Code
generation runs at level 1, whose missing post-register-allocation scheduler is what makes large
kernels compile for seconds, not minutes.
"""

import functools
from typing import Any

from llvmlite import binding

from vgpu_sim.exec.errors import CodeGenerationError

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


@functools.cache
def _initialise() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@functools.cache
def cpu() -> tuple[str, str]:
    """Name and features of this machine's CPU, as LLVM spells them."""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def vector_bits() -> int:
    """Width of the CPU's vector registers."""
    features = cpu()[1].split(",")
    if "+avx512vl" in features and "+avx512dq" in features and "+avx512bw" in features:
        return 512
    return 256 if "+avx2" in features else 128


def version() -> str:
    """LLVM's version."""
    return ".".join(map(str, binding.llvm_version_info))


@functools.cache
def _machine(tier: int) -> Any:
    _initialise()
    name, features = cpu()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=name, features=features, opt=tier, reloc="pic", codemodel="small"
    )


def object_code(text: str, tier: int) -> bytes:
    """Compile a module's text.

    Raises:
        CodeGenerationError: LLVM does not accept the text, or cannot emit code for it.
    """
    module, machine = _parsed(text, tier)
    try:
        code: bytes = machine.emit_object(module)
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM emitted no code: {error}") from error
    return code


def optimised(text: str, tier: int) -> str:
    """Return the module after the passes. Raises as ``object_code``."""
    return str(_parsed(text, tier)[0])


def _parsed(text: str, tier: int) -> tuple[Any, Any]:
    machine = _machine(tier)
    try:
        module = binding.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
        module.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM refused generated text: {error}") from error
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
    """Return a new linker session. Code that it links sees no symbol of this process."""
    _initialise()
    return binding.create_lljit_compiler(_machine(1))
