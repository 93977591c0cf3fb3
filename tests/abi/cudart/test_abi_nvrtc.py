"""Tessera's NVRTC above a stand-in for NVIDIA's: what it passes on, and how programs find it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# A program "compiles" to machine code if its first option names a real architecture, and to LTO-IR
# if that is -dlto. This NVRTC is too old for nvrtcGetLoweredName.
STAND_IN = r"""
#include <stddef.h>
#include <string.h>
static const char *option;
int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = 7; return 0; }
int nvrtcCreateProgram(void **p, const char *s, const char *n, int c, const char *const *h,
                       const char *const *i) {
  *p = (void *)s;
  return strcmp(n, "k.cu") || c != 1 || strcmp(h[0], "header") || strcmp(i[0], "name");
}
int nvrtcCompileProgram(void *p, int n, const char *const *o) { option = o[0]; return n - 1; }
int nvrtcGetCUBINSize(void *p, size_t *n) { *n = strstr(option, "sm_") ? 6 : 0; return 0; }
int nvrtcGetCUBIN(void *p, char *c) { memcpy(c, "\x7f" "ELF", 5); return 0; }
int nvrtcGetPTXSize(void *p, size_t *n) { *n = option[1] == 'd' ? 1 : 10; return p ? 0 : 4; }
int nvrtcGetPTX(void *p, char *c) { memcpy(c, ".version ", 10); return 0; }
int nvrtcSetPCHHeapSize(size_t n) { return n == 1ul << 40 ? 13 : 0; }
int nvrtcGetProgramLog(void *p, char *c) { strcpy(c, option); return 0; }
"""

USE = """
import ctypes, os
ctypes.CDLL("libcuda.so.1")
for major in (12, 13):
    try:
        nvrtc = ctypes.CDLL(f"libnvrtc.so.{major}", mode=os.RTLD_NOLOAD)
    except OSError:
        print(major, "absent")
        continue
    number, size, program = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_void_p()
    text, minor = ctypes.create_string_buffer(16), ctypes.c_int()
    print(major, nvrtc.nvrtcVersion(ctypes.byref(number), ctypes.byref(minor)), number.value)
    if number.value == 0:
        continue
    words = [(ctypes.c_char_p * 1)(word) for word in (b"header", b"name")]
    print(nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"source", b"k.cu", 1, *words))
    for option in (b"-arch=sm_90", b"-arch=compute_90", b"-dlto"):
        print(nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(option)), end=" ")
        nvrtc.nvrtcGetProgramLog(program, text)
        assert text.value == option
        print(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), size.value, end=" ")
        nvrtc.nvrtcGetCUBIN(program, text)
        print(text.value)
    print(nvrtc.nvrtcSetPCHHeapSize(ctypes.c_size_t(1 << 40)))
    print(nvrtc.nvrtcGetLoweredName(program, b"k", ctypes.byref(program)))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    print(nvrtc.nvrtcGetErrorString(5).decode(), nvrtc.nvrtcGetErrorString(99).decode())
    ctypes.CDLL(f"libnvrtc-builtins.so.{major}.7", mode=os.RTLD_NOLOAD)
"""

USED = """
0
0 0 10 b'.version '
0 0 0 b'\\x7fELF'
0 0 0 b'\\x7fELF'
13
11
NVRTC_ERROR_INVALID_OPTION NVRTC_ERROR unknown
"""


def use(environment: dict[str, str], **more: str) -> tuple[str, str]:
    """Return what a program prints, and what the libraries write to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env=environment | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """Return a folder of Python packages with a stand-in of each version."""
    root = tmp_path_factory.mktemp("venv") / "lib" / "python3.99" / "site-packages"
    for major, name in ((12, "cuda_nvrtc"), (13, "cu13")):
        folder = root / "nvidia" / name / "lib"
        folder.mkdir(parents=True)
        source = folder / "nvrtc.c"
        source.write_text(STAND_IN)
        for library in (f"libnvrtc.so.{major}", f"libnvrtc-builtins.so.{major}.7"):
            command = ["cc", "-w", "-shared", "-fPIC", f"-DMAJOR={major}", f"-Wl,-soname,{library}"]
            subprocess.run([*command, "-o", folder / library, source], check=True)
    return root


def test_calls_reach_nvidias_and_machine_code_is_replaced_by_its_ptx(
    packages, environment, tmp_path
):
    for name in ("cuda_nvrtc", "cu13"):
        for library in (packages / "nvidia" / name / "lib").glob("*.so.*"):
            (tmp_path / library.name).symlink_to(library)
    printed, said = use(environment, TESSERA_NVRTC=str(tmp_path))
    assert printed == f"12 0 12{USED}13 0 13{USED}"
    assert said.count("nvrtcGetLoweredName: not in the installed NVRTC, which is older") == 2


def test_nvidias_is_found_in_the_packages_of_a_virtual_environment(packages, environment):
    more = {"VIRTUAL_ENV": str(packages.parents[2]), "TESSERA_NVRTC": "/absent"}
    printed, _ = use(environment, **more)
    assert printed == f"12 0 12{USED}13 0 13{USED}"


def test_it_is_not_loaded_if_it_is_off(packages, environment):
    more = {"VIRTUAL_ENV": str(packages.parents[2]), "TESSERA_NVRTC": "0"}
    assert use(environment, **more) == ("12 absent\n13 absent\n", "")


def test_an_nvrtc_that_cannot_be_loaded_is_named(environment, tmp_path):
    for major in (12, 13):
        (tmp_path / f"libnvrtc.so.{major}").write_text("no library")
    printed, said = use(environment, TESSERA_NVRTC=str(tmp_path))
    assert printed == "12 11 0\n13 11 0\n"
    assert re.search(
        rf"^tessera: {tmp_path}/libnvrtc.so.13: .*: install nvidia-cuda", said, re.MULTILINE
    )
    more = {"TESSERA_NVRTC": str(tmp_path), "TESSERA_LOG": "quiet"}
    assert use(environment, **more)[1] == ""


@pytest.mark.parametrize("major", [12, 13])
def test_all_public_functions_are_exported(libraries, major):
    library = libraries / f"libnvrtc.so.{major}"
    done = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True)
    exported = set(re.findall(rf"libnvrtc.so.{major} +nvrtc(\w+)$", done.stdout, re.MULTILINE))
    assert len(exported) == {12: 26, 13: 29}[major]
    assert ("GetNVVM" in exported) == (major == 12)
