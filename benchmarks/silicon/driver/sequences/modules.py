"""Modules, libraries and the linker, with good and bad images."""

import ctypes

from benchmarks.silicon.driver import kernels
from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("modules")
H = kernels.HEADER
BODY = ".visible .entry k() { ret; }\n"


def make_head(version: str = "8.0", target: str = "sm_80", size: str = "64") -> str:
    """Return the head of a PTX file."""
    return f".version {version}\n.target {target}\n.address_size {size}\n"


IMAGES = {
    "empty": "",
    "space": "  \n",
    "garbage": "garbage",
    "header": H,
    "kernel": H + BODY,
    "no version": ".target sm_80\n.address_size 64\n" + BODY,
    "no target": ".version 8.0\n.address_size 64\n" + BODY,
    "no size": ".version 8.0\n.target sm_80\n" + BODY,
    "size 32": make_head(size="32") + BODY,
    "size 16": make_head(size="16") + BODY,
    "version 1.0": make_head("1.0") + BODY,
    "version 2.0": make_head("2.0") + BODY,
    "version 9.0": make_head("9.0", "sm_90") + BODY,
    "version 9.1": make_head("9.1") + BODY,
    "version 9.9": make_head("9.9") + BODY,
    "version 99.0": make_head("99.0") + BODY,
    **{
        f"target {t}": make_head("8.8", t) + BODY
        for t in (
            "sm_10",
            "sm_20",
            "sm_30",
            "sm_35",
            "sm_50",
            "sm_52",
            "sm_60",
            "sm_70",
            "sm_75",
            "sm_86",
            "sm_89",
            "sm_90",
            "sm_90a",
            "sm_100",
            "sm_100a",
            "sm_100f",
            "sm_103",
            "sm_120",
            "sm_120a",
            "sm_121",
            "compute_80",
            "sm_999",
            "sm_80, debug",
            "sm_80, texmode_independent",
            "sm_80, map_f64_to_f32",
        )
    },
    "version 7.0 target sm_90": make_head("7.0", "sm_90") + BODY,
    "no semicolon": H + ".visible .entry k() { ret }",
    "unclosed": H + ".visible .entry k() { ret;",
    "unknown instruction": H + ".visible .entry k() { frob; ret; }",
    "unknown register": H + ".visible .entry k() { mov.u32 %r0, 1; ret; }",
    "wrong type": H + ".visible .entry k() { .reg .f32 %f0; mov.u32 %f0, 1; ret; }",
    "wrong width": H + ".visible .entry k() { .reg .b64 %d; mov.u32 %d, 1; ret; }",
    "newer instruction": H + ".visible .entry k() { .reg .b32 %r; griddepcontrol.wait; ret; }",
    "volatile local": H
    + ".visible .entry k() { .local .b32 x; .reg .b32 %r; mov.u32 %r, 1; st.volatile.local.u32 [x], %r; ret; }",
    "twice": H + BODY + BODY,
    "extern function": H + ".extern .func f();\n.visible .entry k() { call f; ret; }",
    "extern unused": H + ".extern .func f();\n" + BODY,
    "extern variable": H
    + ".extern .global .u32 x;\n.visible .entry k() { .reg .b32 %r; ld.global.u32 %r, [x]; ret; }",
    "extern variable unused": H + ".extern .global .u32 x;\n" + BODY,
    "undefined label": H + ".visible .entry k() { bra NOWHERE; }",
    "shared 48K": H
    + ".visible .entry k() { .shared .b8 s[49152]; .reg .b32 %r; mov.u32 %r, s; st.shared.u32 [s], %r; ret; }",
    "shared over": H
    + ".visible .entry k() { .shared .b8 s[49153]; .reg .b32 %r; mov.u32 %r, s; st.shared.u32 [s], %r; ret; }",
    "shared far over": H
    + ".visible .entry k() { .shared .b8 s[1000000]; .reg .b32 %r; mov.u32 %r, s; st.shared.u32 [s], %r; ret; }",
    "shared over unused": H + ".visible .entry k() { .shared .b8 s[1000000]; ret; }",
    "local over": H
    + ".visible .entry k() { .local .b8 s[600000]; .reg .b64 %r; mov.u64 %r, s; st.local.u64 [s], %r; ret; }",
    "const 64K": H + ".const .b8 c[65536];\n" + BODY,
    "const over": H + ".const .b8 c[65537];\n" + BODY,
    "global 256M": H + ".global .b8 c[268435456];\n" + BODY,
    "parameters 4K": H + ".visible .entry k(.param .b8 p[4352]) { ret; }",
    "parameters over": H + ".visible .entry k(.param .b8 p[4353]) { ret; }",
    "parameters 8.1": make_head("8.1") + ".visible .entry k(.param .b8 p[32764]) { ret; }",
    "parameters 8.1 over": make_head("8.1") + ".visible .entry k(.param .b8 p[32765]) { ret; }",
    "maxntid 0": H + ".visible .entry k() .maxntid 0 { ret; }",
    "maxntid 1024": H + ".visible .entry k() .maxntid 1024 { ret; }",
    "maxntid 1025": H + ".visible .entry k() .maxntid 1025 { ret; }",
    "maxntid and reqntid": H + ".visible .entry k() .maxntid 32 .reqntid 32 { ret; }",
    "maxnreg 0": H + ".visible .entry k() .maxnreg 0 { ret; }",
    "maxnreg 8": H + ".visible .entry k() .maxnreg 8 { ret; }",
    "maxnreg 1000": H + ".visible .entry k() .maxnreg 1000 { ret; }",
    "cluster 8": kernels.HOPPER + ".visible .entry k() .reqnctapercluster 8 { ret; }",
    "cluster 9": kernels.HOPPER + ".visible .entry k() .reqnctapercluster 9 { ret; }",
    "cluster 16": kernels.HOPPER + ".visible .entry k() .reqnctapercluster 16 { ret; }",
    "cluster 17": kernels.HOPPER + ".visible .entry k() .reqnctapercluster 17 { ret; }",
    "cluster 0": kernels.HOPPER + ".visible .entry k() .reqnctapercluster 0 { ret; }",
    "comment": "// only a comment\n",
    "comment first": "// a comment\n/* and\n another */\n" + H + BODY,
    "crlf": (H + BODY).replace("\n", "\r\n"),
    "bom": "\ufeff" + H + BODY,
    "elf": "\x7fELF junk that is no object",
    "fatbin": "\x50\xed\x55\xba",
    "weak twice": H + ".weak .entry k() { ret; }\n.weak .entry k() { ret; }\n",
    "function only": H + ".visible .func f() { ret; }\n",
    "underscore": H + ".visible .entry _$%k() { ret; }\n",
    "managed": H + ".visible .global .attribute(.managed) .u32 m;\n" + BODY,
    "bad pragma": H + '.visible .entry k() { .pragma "nonsense"; ret; }',
    "recursive": H + ".func f();\n.func f() { call f; ret; }\n.visible .entry k() { call f; ret; }",
    "alias": make_head("6.3")
    + ".visible .func f() { ret; }\n.visible .func g();\n.alias g, f;\n"
    + BODY,
    "wgmma": make_head("8.0", "sm_90a") + ".visible .entry k() { wgmma.fence.sync.aligned; ret; }",
    "wgmma sm_90": make_head("8.0", "sm_90")
    + ".visible .entry k() { wgmma.fence.sync.aligned; ret; }",
}


@TABLE.each(IMAGES)
def load(rig: Rig, name: str) -> None:
    api, image = rig.api, IMAGES[name].encode()
    for call, extra_arguments in (
        ("cuModuleLoadData", ()),
        ("cuModuleLoadFatBinary", ()),
        ("cuModuleLoadDataEx", (0, 0, 0)),
        ("cuLibraryLoadData", (0, 0, 0, 0, 0, 0)),
    ):
        out = Out()
        status = api(call, out, image, *extra_arguments)
        if not status and call == "cuModuleLoadData":
            api("cuModuleGetFunctionCount", Out("u32"), out.value)
            api("cuModuleGetFunction", Out(), out.value, b"k")
            api("cuModuleGetFunction", Out(), out.value, b"f")
            api("cuModuleUnload", out.value)
        if not status and call == "cuLibraryLoadData":
            api("cuLibraryGetKernelCount", Out("u32"), out.value)
            kernel = Out()
            api("cuLibraryGetKernel", kernel, out.value, b"k")
            api("cuLibraryGetModule", Out(), out.value)
            api("cuLibraryUnload", out.value)


def new_link(rig: Rig) -> int:
    """Return a new state of the linker."""
    out = Out()
    rig.api.call("cuLinkCreate_v2", 0, 0, 0, out)
    return out.value


@TABLE.each(IMAGES)
def link(rig: Rig, name: str) -> None:
    api, image = rig.api, IMAGES[name].encode()
    state = new_link(rig)
    api("cuLinkAddData_v2", state, 1, image, len(image) + 1, b"name", 0, 0, 0)
    api("cuLinkComplete", state, Out(), Out("-"))
    api("cuLinkDestroy", state)


@TABLE.each([(kind, size) for kind in range(-1, 9) for size in (0, 1, 200)])
def link_input(rig: Rig, kind: int, size: int) -> None:
    api, state = rig.api, new_link(rig)
    api("cuLinkAddData_v2", state, kind, (H + BODY).encode(), size, b"name", 0, 0, 0)
    api("cuLinkAddFile_v2", state, kind, b"/nonexistent", 0, 0, 0)
    api("cuLinkComplete", state, Out(), Out("-"))


@TABLE.each([(option, value) for option in range(-1, 36) for value in (0, 1, 4, 8, 80, 90, 99)])
def option(rig: Rig, option: int, value: int) -> None:
    """Load with one option of the JIT compiler; those that take addresses are left out."""
    if option in (3, 5, 15, 18, 19, 26, 31):  # logs, and tables of addresses
        return
    out, values = Out(), longs(value)
    status = rig.api("cuModuleLoadDataEx", out, (H + BODY).encode(), 1, words(option), values)
    if not status:
        rig.api("cuModuleUnload", out.value)


@TABLE.each(("kernel", "garbage", "unknown instruction", "extern function"))
def logs(rig: Rig, name: str) -> None:
    api = rig.api
    for size in (0, 1, 20, 4096):
        errors, info = (ctypes.create_string_buffer(b"?" * 4095, 4097) for _ in range(2))
        values = longs(ctypes.addressof(info), size, ctypes.addressof(errors), size, 1)
        api("cuModuleLoadDataEx", Out(), IMAGES[name].encode(), 5, words(3, 4, 5, 6, 12), values)
        error = (
            errors.value[:60].decode("utf-8", "replace") if size > 20 and name != "kernel" else ""
        )
        api.note("log", values[3] == size, bool(errors.raw[0] != ord("?")), error.split(",")[0])


@TABLE.once
def missing(rig: Rig) -> None:
    api, module = rig.api, rig.api.make("cuModuleLoadData", kernels.MODULE.encode())
    for name in (b"nothing", b"NOTHING", b"", b"counter", b"absent", b"n" * 5000):
        api("cuModuleGetFunction", Out(), module, name)
        api("cuModuleGetGlobal_v2", Out(), Out("u64"), module, name)
        api("cuModuleGetTexRef", Out(), module, name)
        api("cuModuleGetSurfRef", Out(), module, name)
    for name in (b"counter", b"large", b"table"):
        api("cuModuleGetGlobal_v2", Out(), 0, module, name)
        api("cuModuleGetGlobal_v2", 0, Out("u64"), module, name)
        api("cuModuleGetGlobal_v2", 0, 0, module, name)
    api("cuModuleGetFunctionCount", Out("u32"), module)
    api("cuModuleEnumerateFunctions", longs(*[0] * 20), 20, module)
    api("cuModuleEnumerateFunctions", longs(*[0] * 20), 0, module)
    api("cuModuleGetFunction", Out(), 0, b"nothing")
    api("cuModuleGetLoadingMode", Out("i32"))
    api("cuModuleUnload", 0)
    api("cuModuleUnload", module)


@TABLE.once
def files(rig: Rig) -> None:
    api = rig.api
    for name in (b"/nonexistent", b"", b"/", b"/dev/null"):
        api("cuModuleLoad", Out(), name)
        api("cuLibraryLoadFromFile", Out(), name, 0, 0, 0, 0, 0, 0)


@TABLE.once
def libraries(rig: Rig) -> None:
    api = rig.api
    library = api.make("cuLibraryLoadData", kernels.MODULE.encode(), 0, 0, 0, 0, 0, 0)
    kernel, function, name = Out(), Out(), Out()
    api("cuLibraryGetKernel", kernel, library, b"limited")
    api("cuKernelGetFunction", function, kernel.value)
    api("cuKernelGetFunction", function, 0)
    api("cuKernelGetLibrary", Out(), kernel.value)
    api("cuKernelGetName", name, kernel.value)
    api("cuFuncGetName", name, function.value)
    api("cuFuncGetModule", Out(), function.value)
    api("cuFuncGetModule", Out(), kernel.value)
    for number in range(18):
        api(
            "cuKernelGetAttribute",
            Out("i32") if number not in (4, 6) else Out("-"),
            number,
            kernel.value,
            0,
        )
    for device in (-1, 1, 7):
        api("cuKernelGetAttribute", Out("i32"), 0, kernel.value, device)
    for value in (0, 49152, 100000, 232448, 232449, -1):
        api("cuKernelSetAttribute", 8, value, kernel.value, 0)
    api("cuLibraryGetGlobal", Out(), Out("u64"), library, b"counter")
    api("cuLibraryGetGlobal", Out(), Out("u64"), library, b"absent")
    api("cuLibraryGetManaged", Out(), Out("u64"), library, b"counter")
    api("cuLibraryGetKernel", Out(), library, b"absent")
    api("cuLibraryGetKernelCount", Out("u32"), library)
    api("cuLibraryEnumerateKernels", longs(*[0] * 20), 20, library)
    api("cuLaunchKernel", kernel.value, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    api("cuFuncLoad", function.value)
    api("cuFuncIsLoaded", Out("i32"), function.value)
    api("cuLibraryUnload", library)
    api("cuLibraryUnload", 0)
