"""Tessera's nvJitLink, called by ctypes: links of PTX, refusals, and how programs find it."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels.fat_binaries import make_entry, make_fat_binary

OPTION, NO_ARCH, INVALID, PTX_COMPILE, INTERNAL = 1, 2, 3, 4, 6
NULL, INCOMPATIBLE, WRONG_TYPE, NO_FATBIN, OLD_ARCH = 10, 11, 12, 15, 17
CUBIN, PTX, LTOIR, FATBIN, LIBRARY, ANY = 1, 2, 3, 4, 6, 10
HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
KERNEL = HEAD + ".extern .func one();\n.visible .entry k() { call one; ret; }\n"
FUNCTION = HEAD + ".visible .func one() { ret; }\n"
ARCH = "-arch=sm_80"


class Linker:
    """The functions of one library, without their prefix."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))

    def create(self, *options: str) -> tuple[int, ctypes.c_void_p]:
        handle = ctypes.c_void_p()
        words = (ctypes.c_char_p * len(options))(*(one.encode() for one in options))
        return self._library.nvJitLinkCreate(ctypes.byref(handle), len(options), words), handle

    def add(self, handle: ctypes.c_void_p, kind: int, data: str | bytes, name: bytes) -> int:
        raw = data.encode() if isinstance(data, str) else data
        size = ctypes.c_size_t(len(raw))
        return self._library.nvJitLinkAddData(handle, kind, raw, size, name)

    def complete(self, handle: ctypes.c_void_p) -> int:
        return self._library.nvJitLinkComplete(handle)

    def get(self, what: str, handle: ctypes.c_void_p) -> bytes | int:
        """Return a result or a log, or the status of its size."""
        size = ctypes.c_size_t()
        status = getattr(self._library, f"nvJitLinkGet{what}Size")(handle, ctypes.byref(size))
        if status:
            return status
        found = ctypes.create_string_buffer(b"?" * max(1, size.value))
        assert getattr(self._library, f"nvJitLinkGet{what}")(handle, found) == 0
        assert size.value or found.raw == b"\0\0", "an empty log has size 0 and is a text"
        return found.raw[: size.value]

    def destroy(self, handle: ctypes.c_void_p) -> int:
        return self._library.nvJitLinkDestroy(ctypes.byref(handle))

    def version(self) -> tuple[int, int]:
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        assert self._library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
        return major.value, minor.value


@pytest.fixture(params=[12, 13])
def linker(request, libraries) -> Linker:
    return Linker(libraries / f"libnvJitLink.so.{request.param}")


def test_ptx_is_linked_to_an_image(linker, cuda):
    fat = make_fat_binary(make_entry(80, FUNCTION, compression="zstd"))
    for kind, other in ((PTX, FUNCTION), (CUBIN, FUNCTION), (FATBIN, fat), (ANY, fat)):
        status, handle = linker.create(ARCH, "-lineinfo", "-maxrregcount=32", "-O3")
        assert status == 0
        assert linker.get("LinkedCubin", handle) == INVALID, "it is not linked"
        assert linker.add(handle, PTX, KERNEL, b"kernel") == 0
        assert linker.add(handle, kind, other, b"function") == 0
        assert (linker.complete(handle), linker.complete(handle)) == (0, 0)
        module = cuda.cuModuleLoadData(linker.get("LinkedCubin", handle))
        cuda.cuModuleGetFunction(module, b"k")
        assert linker.get("ErrorLog", handle) == linker.get("InfoLog", handle) == b""
        assert linker.get("LinkedPtx", handle) == linker.get("LinkedLTOIR", handle) == INVALID
        assert (linker.destroy(handle), handle.value) == (0, None)


def test_nothing_and_one_text_are_linked(linker, cuda):
    _, handle = linker.create(ARCH)
    assert linker.complete(handle) == 0
    cuda.cuModuleLoadData(linker.get("LinkedCubin", handle))
    linker.destroy(handle)
    _, handle = linker.create("-lto", "-ptx", ARCH)
    linker.add(handle, PTX, FUNCTION, b"function")
    assert linker.complete(handle) == 0
    assert linker.get("LinkedPtx", handle) == FUNCTION.encode() + b"\0"
    linker.destroy(handle)


def test_wrong_options_have_nvidias_status(linker):
    assert linker.create()[0] == NO_ARCH
    assert linker.create("-O3")[0] == NO_ARCH
    assert linker.create("-arch=sm_XX")[0] == OPTION
    assert linker.create(ARCH, "-foo")[0] == OPTION
    assert linker.create(ARCH, "-O9")[0] == OPTION
    assert linker.create(ARCH, "-maxrregcount=x")[0] == OPTION
    assert linker.create("-arch=sm_35")[0] == OLD_ARCH
    assert linker.create("-arch=compute_90")[0] == INCOMPATIBLE
    assert linker.create(ARCH, "-ptx")[0] == INCOMPATIBLE
    assert linker.destroy(ctypes.c_void_p()) == NULL
    assert linker.complete(ctypes.c_void_p()) == NULL
    assert linker.get("ErrorLog", ctypes.c_void_p()) == NULL


def test_what_cannot_be_linked_is_named_in_the_log(linker, cuda, capfd):
    _, handle = linker.create(ARCH, "-lto")
    assert linker.add(handle, LTOIR, b"\x7fNC\xed", b"input.ltoir") == WRONG_TYPE
    assert b"input 'input.ltoir' is LTO-IR" in linker.get("ErrorLog", handle)
    assert "pass PTX" in capfd.readouterr().err
    for kind, data in ((PTX, "garbage"), (CUBIN, "garbage"), (LIBRARY, KERNEL), (0, KERNEL)):
        assert linker.add(handle, kind, data, b"x") == WRONG_TYPE
    assert linker.add(handle, PTX, b"", b"x") == INVALID
    linker.destroy(handle)
    wrong = {
        KERNEL: (INTERNAL, b"Undefined reference to 'one' in 'x'"),
        HEAD + ".visible .entry k() { foo; ret; }": (PTX_COMPILE, b"'foo'"),
        KERNEL.replace("sm_80", "sm_121"): (NO_FATBIN, b"sm_121"),
    }
    for text, (status, log) in wrong.items():
        _, handle = linker.create(ARCH)
        assert linker.add(handle, PTX, text, b"x") == 0
        assert linker.complete(handle) == status
        assert log in linker.get("ErrorLog", handle)
        linker.destroy(handle)


def test_clients_that_expect_lto_from_12_3_on_link_ptx(linker):
    assert linker.version() < (12, 3)


@pytest.mark.parametrize("major", [12, 13])
def test_every_version_of_a_name_is_exported(libraries, major):
    library = libraries / f"libnvJitLink.so.{major}"
    done = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True)
    exported = set(re.findall(rf"libnvJitLink.so.{major} +(\w+)$", done.stdout, re.MULTILINE))
    plain = {name for name in exported if not name.startswith("_")} - {"nvJitLinkVersion"}
    assert len(plain) == 15
    assert exported - plain - {"nvJitLinkVersion"} == {
        f"__{name}_{major}_{minor}" for name in plain for minor in range(10)
    }


LOADS = """
import ctypes, os, sys
ctypes.CDLL("libcuda.so.1")
for major in (12, 13):
    try:
        ctypes.CDLL(f"libnvJitLink.so.{major}", mode=os.RTLD_NOLOAD)
        print("loaded")
    except OSError:
        print("absent")
"""


def test_libcuda_loads_it_before_a_client_looks_for_it(environment):
    for value, expected in ((None, "loaded"), ("0", "absent")):
        chosen = environment | ({"TESSERA_NVJITLINK": value} if value else {})
        done = subprocess.run(
            [sys.executable, "-c", LOADS], env=chosen, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [expected] * 2


def test_a_link_without_a_context_borrows_one(environment, libraries):
    program = f"""
import ctypes
linker = ctypes.CDLL({str(libraries / "libnvJitLink.so.13")!r})
driver = ctypes.CDLL("libcuda.so.1")
handle, context = ctypes.c_void_p(), ctypes.c_void_p()
assert linker.nvJitLinkCreate(ctypes.byref(handle), 1, (ctypes.c_char_p * 1)(b"-arch=sm_80")) == 0
text = {FUNCTION.encode()!r}
assert linker.nvJitLinkAddData(handle, 2, text, ctypes.c_size_t(len(text)), b"x") == 0
assert linker.nvJitLinkComplete(handle) == 0
assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
assert context.value is None
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
