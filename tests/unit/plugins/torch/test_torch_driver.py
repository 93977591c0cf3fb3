"""tessera_torch finds Tessera's driver without a call into it."""

import sys

from tessera_torch import driver, loading, settings

_MAPS = """\
7f00-7f10 r-xp 00000000 00:1f 42  /opt/lib/libcuda.so.1
7f10-7f20 r--p 00010000 00:1f 42  /opt/lib/libcuda.so.1
7f20-7f30 r-xp 00000000 00:1f 43  /opt/lib/libcudart.so.13
7f30-7f40 rw-p 00000000 00:00 0
"""


def test_the_driver_is_found_among_the_mapped_files():
    assert driver.mapped_drivers(_MAPS.splitlines()) == ("/opt/lib/libcuda.so.1",)
    assert driver.mapped_drivers([]) == ()


def test_tesseras_library_has_the_mark(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(b"\x7fELF..TESSERA_SLICES_DIR..")
    theirs.write_bytes(b"\x7fELF..")
    assert driver.has_mark(str(ours))
    assert not driver.has_mark(str(theirs))


def test_a_process_without_the_driver_is_left_alone(monkeypatch):
    monkeypatch.setattr(driver, "find", tuple)  # another test may have loaded it
    assert not driver.is_tessera()
    monkeypatch.setattr(loading, "_register", lambda: 1 / 0)
    loading.load()
    assert "torch" not in sys.modules


def test_an_error_is_printed_and_ends_nothing(monkeypatch, capsys):
    monkeypatch.setattr(driver, "is_tessera", lambda: True)
    monkeypatch.setattr(loading, "_register", lambda: 1 / 0)
    loading.load()
    assert "eager operators are not available: ZeroDivisionError" in capsys.readouterr().err


def test_the_variable_switches_everything_off(monkeypatch, capsys):
    monkeypatch.setattr(driver, "is_tessera", lambda: True)
    monkeypatch.setattr(loading, "_register", lambda: 1 / 0)
    monkeypatch.setenv(settings.SWITCH_VARIABLE, "0")
    loading.load()
    assert not capsys.readouterr().err
