"""Objects that a tenant which has taken over its worker could leave in the object cache."""

from pathlib import Path

from llvmlite import binding

from vgpu_sim.exec.jit import Plan
from vgpu_sim.exec.jit.control.assemble import ENTRY
from vgpu_sim.exec.jit.objects import cache
from vgpu_sim.exec.jit.objects.compiler import content_key
from vgpu_sim.exec.jit.objects.native_code import NativeCode
from vgpu_sim.worker.warm_up import KERNEL, warm_up_module

WARM_UP_BLOCK = (32, 1, 1)

# Creates a file by a raw system call: open(path, O_WRONLY | O_CREAT, 0644).
_CREATE = """
@path = private unnamed_addr constant [{length} x i8] c"{path}\\00"
define void @"{name}"() nounwind {{
  %done = call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},{{rdx}},~{{rcx}},~{{r11}},~{{memory}}"(
    i64 2, ptr @path, i64 65, i64 420)
  ret void
}}
"""
_KERNEL = f"define void @{ENTRY}() nounwind {{ ret void }}\n"


def object_of(text: str) -> bytes:
    """Compile LLVM IR for this machine."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()
    machine = binding.Target.from_default_triple().create_target_machine(
        reloc="pic", codemodel="small"
    )
    code: bytes = machine.emit_object(binding.parse_assembly(text))
    return code


def kernel_with_initialiser(marker: Path) -> bytes:
    """Return an object with a kernel and a function that LLJIT calls when it links: it creates
    ``marker``.
    """
    path = str(marker)
    name = "__orc_init_func.attack"
    return object_of(_KERNEL + _CREATE.format(path=path, length=len(path) + 1, name=name))


def kernel_that_creates(marker: Path) -> bytes:
    """Return an object that only its code reveals as hostile: the kernel itself creates
    ``marker``.
    """
    path = str(marker)
    return object_of(_CREATE.format(path=path, length=len(path) + 1, name=ENTRY))


def warm_up_key() -> str:
    """Return the name that the warm-up's entry once had."""
    module = warm_up_module()
    return content_key(module, module.function(KERNEL), WARM_UP_BLOCK, None)


def store(directory: Path, key: str, object_code: bytes) -> None:
    """Put an object into a cache under a key."""
    code = NativeCode(ENTRY, object_code, Plan(16, 1), WARM_UP_BLOCK, 16)
    cache.store(directory, key, code.to_bytes())


def plant(directory: Path, object_code: bytes) -> None:
    """Put an object in the place of the warm-up's entry and of all existing entries."""
    for key in {warm_up_key(), *(entry.stem for entry in directory.glob("*.object"))}:
        store(directory, key, object_code)
