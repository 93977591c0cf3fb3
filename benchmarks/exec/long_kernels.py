"""Generated PTX of a given length: straight, and with a branch every few instructions."""

_HEAD = """.version 7.0
.target sm_80
.address_size 64
.visible .entry {name}(.param .u64 data)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<16>;
    .reg .f32 %f<16>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r11, [%rd3];
    shl.b32 %r1, %r1, 1;
    add.s32 %r1, %r1, 1;
    cvt.rn.f32.u32 %f1, %r1;
"""
# Each uses other results and a value of the lane, so that none is eliminated or shared.
_STEPS = (
    "mad.lo.s32 %r{a}, %r{b}, %r1, %r{c};",
    "fma.rn.f32 %f{a}, %f{b}, %f1, %f{c};",
    "xor.b32 %r{a}, %r{b}, %r{c};",
    "mul.f32 %f{a}, %f{b}, 0f3F000000;",
    "sub.s32 %r{a}, %r{c}, %r{b};",
    "max.f32 %f{a}, %f{b}, %f{c};",
)
_REGISTERS = 6
_BRANCH_EVERY = 10


def straight(instructions: int) -> str:
    """Return a kernel ``straight(data)`` with ``instructions`` instructions in one block."""
    return _kernel("straight", instructions, branches=False)


def branchy(instructions: int) -> str:
    """Return a kernel ``branchy(data)``: every tenth instruction jumps over some, divergently."""
    return _kernel("branchy", instructions, branches=True)


def _kernel(name: str, instructions: int, *, branches: bool) -> str:
    body, label, count = [], 0, 22 + 2 * _REGISTERS  # with the instructions before and after them
    while count < instructions:
        if branches and count % _BRANCH_EVERY == 0:
            body += [f"    setp.gt.s32 %p1, %r{2 + label % _REGISTERS}, {label};"]
            body += [f"    @%p1 bra L{label};"]
            body += [_step(count + 2 + i) for i in range(_BRANCH_EVERY // 2)]
            body += [f"L{label}:"]
            count += 2 + _BRANCH_EVERY // 2
            label += 1
        else:
            body.append(_step(count))
            count += 1
    registers = range(2, 2 + _REGISTERS)
    start = [f"    add.s32 %r{i}, %r1, {i};\n    cvt.rn.f32.s32 %f{i}, %r{i};" for i in registers]
    end = [f"    cvt.rzi.s32.f32 %r10, %f{i};\n    xor.b32 %r11, %r11, %r10;" for i in registers]
    end += [f"    xor.b32 %r11, %r11, %r{i};" for i in registers]
    end += ["    st.global.u32 [%rd3], %r11;", "    ret;", "}", ""]
    return "\n".join([_HEAD.format(name=name).rstrip(), *start, *body, *end])


def _step(count: int) -> str:
    # Registers two apart, so that all of them are read before they are written again.
    turn = count // len(_STEPS) * 3 + count % len(_STEPS) // 2
    numbers = {key: 2 + (turn + i) % _REGISTERS for i, key in enumerate("abc")}
    return "    " + _STEPS[count % len(_STEPS)].format(**numbers)
