"""The driver's functions that a module receives: when, which ones, and under which names."""

import pytest

from vgpu_sim.compiler import compile_ptx, system_calls
from vgpu_sim.compiler.lower.symbols import names
from vgpu_sim.compiler.ptx import parse, tree

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_PRINT = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
_FREE = ".extern .func free(.param .b64 p);\n"
_PURE = ".extern .func __cxa_pure_virtual();\n"
_CALL = "{ .param .b64 f; .param .b32 r; call (r), vprintf, (f, f); }"


def _module(declared: str, body: str = "") -> tree.Module:
    return parse(f"{_HEAD}{declared}.visible .entry k() {{ {body} ret; }}\n".encode())


def _added_functions(module: tree.Module) -> set[str]:
    before = {f.name for f in module.functions if f.body is not None}
    after = {f.name for f in system_calls.add_system_calls(module).functions if f.body is not None}
    return after - before


def test_nothing_is_added_to_what_calls_nothing() -> None:
    for declared in ("", _PRINT, _PRINT + _FREE):
        module = _module(declared)
        assert system_calls.add_system_calls(module) is module


def test_a_call_brings_its_function_and_what_that_needs() -> None:
    added = _added_functions(_module(_PRINT + _FREE, _CALL))
    assert "vprintf" in added
    assert "tessera.print" in added
    assert added & system_calls.NAMES == {"vprintf", "free"}  # those that the module declares


def test_functions_that_the_module_has_itself_stay() -> None:
    own = ".func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a) { ret; }\n"
    module = _module(own, _CALL)
    assert system_calls.add_system_calls(module) is module


def test_an_address_in_a_variable_is_a_use() -> None:
    table = ".global .align 8 .u64 table[1] = {__cxa_pure_virtual};\n"
    assert "__cxa_pure_virtual" in _added_functions(_module(_PURE + table))
    assert _added_functions(_module(_PURE)) == set()


def test_no_program_can_name_what_is_added() -> None:
    module = system_calls.add_system_calls(_module(_PRINT, _CALL))
    own = {f.name for f in module.functions} | {v.name for v in module.variables}
    hidden = own - system_calls.NAMES - {"k"}
    assert hidden
    assert all("." in name for name in hidden)
    text = _PRINT + ".global .b64 __tessera_area;\n.func __tessera_print() { ret; }\n"
    assert compile_ptx(_HEAD + text + f".entry k() {{ {_CALL} ret; }}", capability=(9, 0))


def test_what_is_added_names_nothing_else() -> None:
    module = system_calls.add_system_calls(_module(_PRINT + _FREE, _CALL))
    known = {f.name for f in module.functions} | {v.name for v in module.variables}
    for function in module.functions:
        if function.body is not None:
            local = names.find_declared(function.body)
            for name in (
                names.find_used(function.body) - local - {p.name for p in function.parameters}
            ):
                inside = name.startswith("%") or name in {r.name for r in function.returns}
                assert inside or name in known, (function.name, name)


def test_its_lines_are_those_of_the_declaration() -> None:
    module = system_calls.add_system_calls(_module("\n" + _PRINT, _CALL))
    (found,) = [f for f in module.functions if f.name == "vprintf" and f.body is not None]
    assert found.line == 5
    assert {s.line for s in found.body.statements} == {0}


@pytest.mark.parametrize("name", sorted(system_calls.NAMES))
def test_every_name_is_there(name: str) -> None:
    plain = system_calls._ALIASES.get(name, name)
    source = "device_runtime" if name in system_calls._ALIASES else "system_calls"
    assert plain in {f.name for f in system_calls._library(source).functions}
