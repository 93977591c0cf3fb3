"""tessera_torch knows a package's code by its wheel's record, and compiles templates late."""

import importlib.metadata
import os
from types import SimpleNamespace

import pytest

from tessera_torch.caches import startup

_FILES = (
    *("compiler/compiler.py", "backends/nvidia/driver.py", "language/core.py"),
    *("runtime/cache.py", "_C/libtriton.so"),
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package as an installer leaves it: its record is the last file."""
    root = tmp_path / "site-packages"
    lines = []
    for name in (*_FILES, "tools/link.py", "_C/libproton.so"):
        path = root / "triton" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("code")
        os.utime(path, (1000, 1000))
        lines.append(f"triton/{name},sha256=abc,4")
    record = root / "triton-3.9.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("\n".join([*lines, "triton-3.9.0.dist-info/RECORD,,"]) + "\n")
    os.utime(record, (1001, 1001))
    found = SimpleNamespace(version="3.9.0", locate_file=lambda name: root / name)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: found)
    return root / "triton"


def test_the_key_of_a_wheel_depends_on_the_recorded_hashes_of_code(package):
    key = startup.package_key("triton", package)
    assert key.startswith("3.9.0-wheel-")
    record = package.parent / "triton-3.9.0.dist-info" / "RECORD"
    for name, is_other in (("tools/link.py", False), ("language/core.py", True)):
        text = record.read_text().replace(f"{name},sha256=abc", f"{name},sha256=def")
        record.write_text(text)
        assert (startup.package_key("triton", package) != key) == is_other


def _make_longer(package):
    path = package / "language" / "core.py"
    path.write_text("longer code")
    os.utime(path, (1000, 1000))


def _edit(package):
    (package / "language" / "core.py").write_text("edit")


def _add(package):
    (package / "backends" / "other.py").write_text("code")


def _remove(package):
    (package / "compiler" / "compiler.py").unlink()


def _forget(package):
    (package.parent / "triton-3.9.0.dist-info" / "RECORD").unlink()


@pytest.mark.parametrize("change", [_make_longer, _edit, _add, _remove, _forget])
def test_a_changed_package_has_no_key(package, change):
    change(package)
    assert startup.package_key("triton", package) is None


def test_a_package_elsewhere_has_no_key(package, tmp_path):
    assert startup.package_key("triton", tmp_path / "checkout" / "triton") is None


def test_a_template_is_compiled_once_when_it_is_rendered():
    made = []

    def make(source):
        made.append(source)
        return SimpleNamespace(render=lambda **keywords: source.format(**keywords))

    template = startup.LateTemplate(make, "x = {x}")
    assert made == []
    assert template.render(x=1) == "x = 1"
    assert template.render(x=2) == "x = 2"
    assert made == ["x = {x}"]
