"""Interprets a fault of native code: finds the instruction and the address that the program
requested.

Native code clamps addresses before it uses them, so the address at which it faults may differ
from the address that the program requested. If the code clamped the pointer from which the
address is derived (see ``exec.jit.numbers.known_values``), that pointer is a parameter of the
launch, from which the difference is computed.
"""

from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.numbers.known_values import Pointer, known_values
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.address_map import APERTURE_BYTES, CLAMP_BOUND_BYTES
from vgpu_sim.hal.compute.ports import FaultSite, NativeFault, NativeSite
from vgpu_sim.isa import EFFECTS, Function, Instruction, Module, Space
from vgpu_sim.worker.backends import jit_threads
from vgpu_sim.worker.faults import fault_text

_WORD = 1 << 64


def describe(
    module: Module, function: Function, words: tuple[int, ...], fault: NativeFault
) -> NativeSite:
    """Return the source location and the description of a native fault.

    ``words`` are the instructions that the faulting machine code may implement; the most likely one
    is chosen. To find the thread that faulted, the block's threads are run again. If the thread is
    found, its registers show which instruction faulted. They also show the address as it was before
    native code clamped it. The machine state alone shows neither.
    """
    if fault.trap_word:
        word = fault.trap_word - 1
        instruction = function.code[word]
        message = fault_text.describe_trap(instruction)
        if EFFECTS[instruction.op].stops:
            return _site(
                function, word, fault_text.describe_barrier_error(instruction, fault.message), None
            )
        return _site(function, word, message, jit_threads.find(module, function, (word,), fault))
    if fault.kind == FaultKind.STACK:
        line = function.lines[words[0]] if words else 0
        return NativeSite(FaultSite(function.name, line, fault.message), 0)
    fault_name = "misaligned address" if fault.kind == FaultKind.MISALIGNED else "illegal address"
    accesses = [word for word in words if EFFECTS[function.code[word].op].accesses]
    space = Space.SHARED if fault.shared else Space.LOCAL if fault.local else None
    if not accesses:
        fault_address = fault.address if _inside(fault) else 0
        return NativeSite(FaultSite(function.name, 0, fault_name), fault_address)
    # The code of an instruction may be merged with that of its operands: the address distinguishes
    # them.
    like = [word for word in accesses if _may_be_in(function.code[word].space, space)]
    accesses = like or accesses
    thread = jit_threads.find(module, function, accesses, fault)
    if thread is not None:
        message = fault_text.describe_access(
            fault_name,
            function.code[thread.word],
            thread.address,
            _private_bytes(fault),
            _cluster_blocks(fault),
        )
        return _site(function, thread.word, message, thread, is_global=space is None)
    word, line = accesses[0], function.lines[accesses[0]]
    address = fault.address if fault.shared else _requested_address(function, word, fault)
    message = fault_text.describe_access(
        fault_name, function.code[word], address, _private_bytes(fault), _cluster_blocks(fault)
    )
    if space is Space.LOCAL:
        address, message = None, fault_text.describe_local_access(fault_name, function.code[word])
    other_lines = sorted({function.lines[access_word] for access_word in accesses[1:]} - {line})
    if other_lines:
        message += f" (or line {', '.join(map(str, other_lines))})"
    is_global = space is None and address is not None
    return NativeSite(FaultSite(function.name, line, message, is_global=is_global), address or 0)


def _site(
    function: Function,
    word: int,
    message: str,
    faulting_thread: jit_threads.Found | None,
    *,
    is_global: bool = False,
) -> NativeSite:
    thread, address = (
        (None, 0) if faulting_thread is None else (faulting_thread.thread, faulting_thread.address)
    )
    site = FaultSite(function.name, function.lines[word], message, thread, is_global=is_global)
    return NativeSite(site, address)


def _private_bytes(fault: NativeFault) -> int | None:
    if fault.shared:
        return fault.shared_bytes
    return fault.launch.local_bytes if fault.local and fault.launch is not None else None


def _cluster_blocks(fault: NativeFault) -> int:
    return 1 if fault.launch is None else fault.launch.cluster_blocks


def _may_be_in(named: Space, space: Space | None) -> bool:
    """Return whether an access to ``named`` may be an access to ``space``; ``space`` None means
    global memory.
    """
    if space is None:
        return named not in (Space.SHARED, Space.LOCAL)
    return named is space or (named is Space.GENERIC and space is Space.LOCAL)


def _requested_address(function: Function, word: int, fault: NativeFault) -> int | None:
    """Return the address that the program requested; None if it cannot be recovered."""
    instruction = function.code[word]
    if instruction.space is Space.PARAM:
        return instruction.displacement
    pointer = _pointer(function, word)
    if pointer is None or not _is_confined(pointer, instruction) or pointer.origin < 0:
        return fault.address if _inside(fault) else None
    raw = int.from_bytes(fault.parameters[pointer.origin : pointer.origin + 8], "little")
    confined = min((raw - fault.aperture_base) % _WORD, APERTURE_BYTES) + fault.aperture_base
    return (raw + fault.address - confined) % _WORD


def _pointer(function: Function, word: int) -> Pointer | None:
    form = ssa.build(function)
    for block in form.blocks.values():
        for node in block.nodes:
            if isinstance(node, ssa.Operation) and node.word == word:
                return known_values(form).trace(node.sources[0])
    return None


def _is_confined(pointer: Pointer, instruction: Instruction) -> bool:
    size = instruction.vector * instruction.type.bytes
    return pointer.is_confined(instruction.displacement, size)


def _inside(fault: NativeFault) -> bool:
    """Return whether a faulting address cannot result from clamping, and is therefore the address
    that the program requested.
    """
    offset = fault.address - fault.aperture_base
    return 0 <= offset < APERTURE_BYTES - CLAMP_BOUND_BYTES
