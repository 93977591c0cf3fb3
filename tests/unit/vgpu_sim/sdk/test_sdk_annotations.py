"""Rewriting of clang's LLVM IR for managed variables and clusters' sizes."""

import pytest

from vgpu_sim.sdk import annotations, managed_variables
from vgpu_sim.sdk.errors import CompileError

_HOST = """\
@values = internal global [64 x float] undef, align 16
@valuesother = internal global i32 0, align 4
@.mark = private unnamed_addr constant [16 x i8] c"tessera.managed\\00", section "llvm.metadata"
@.file = private unnamed_addr constant [5 x i8] c"m.cu\\00", section "llvm.metadata"
@__cuda_gpubin_handle = internal global ptr null
@llvm.global.annotations = appending global [2 x { ptr, ptr, ptr, i32, ptr }] \
[{ ptr, ptr, ptr, i32, ptr } { ptr @valuesother, ptr @.file, ptr @.file, i32 1, ptr null }, \
{ ptr, ptr, ptr, i32, ptr } { ptr @values, ptr @.mark, ptr @.file, i32 2, ptr null }], section "x"

declare void @__cudaRegisterManagedVar(ptr, ptr, ptr, ptr, i64, i32)

define void @f(i1 %0) {
BODY
}
"""


def rewrite(body: str) -> list[str]:
    """Return the body of the rewritten function."""
    lines = managed_variables.rewrite_host(_HOST.replace("BODY", body)).splitlines()
    begin = lines.index("define void @f(i1 %0) {")
    return [line.strip() for line in lines[begin + 1 : lines.index("}", begin)]]


def test_a_variable_becomes_a_pointer_that_is_registered_as_such() -> None:
    body = "  call void @__cudaRegisterVar(ptr %0, ptr @values, ptr @1, ptr @1, i32 0, i64 256)"
    text = managed_variables.rewrite_host(_HOST.replace("BODY", body))
    assert "@values = internal global ptr null, align 8\n" in text
    assert "@valuesother = internal global i32 0, align 4\n" in text
    assert "@__cudaRegisterManagedVar(ptr %0, ptr @values, ptr @1, ptr @1, i32 0, i64 256)" in text
    assert text.count("declare void @__cudaRegisterManagedVar(") == 1
    assert "llvm.global.annotations" not in text


def test_an_access_loads_the_address_where_it_is() -> None:
    assert rewrite("  %2 = load float, ptr @values, align 4\n  ret void") == [
        "%tessera.managed.1 = call ptr @tessera.managed.address(ptr @values)",
        "%2 = load float, ptr %tessera.managed.1, align 4",
        "ret void",
    ]


def test_constant_expressions_become_instructions_from_the_inside_out() -> None:
    body = (
        "  call void @g(i64 ptrtoint (ptr getelementptr inbounds nuw ([64 x float], ptr @values,"
        " i64 0, i64 3) to i64), ptr @values)"
    )
    assert rewrite(body) == [
        "%tessera.managed.1 = call ptr @tessera.managed.address(ptr @values)",
        "%tessera.managed.2 = getelementptr inbounds nuw [64 x float], ptr %tessera.managed.1,"
        " i64 0, i64 3",
        "%tessera.managed.3 = ptrtoint ptr %tessera.managed.2 to i64",
        "%tessera.managed.4 = call ptr @tessera.managed.address(ptr @values)",
        "call void @g(i64 %tessera.managed.3, ptr %tessera.managed.4)",
    ]


def test_what_a_phi_uses_is_loaded_at_the_functions_begin() -> None:
    body = "entry:\n  br i1 %0, label %a, label %b\na:\n  br label %b\nb:\n"
    body += "  %1 = phi ptr [ @values, %entry ], [ null, %a ]\n  ret void"
    assert rewrite(body) == [
        "entry:",
        "%tessera.managed.1 = call ptr @tessera.managed.address(ptr @values)",
        "br i1 %0, label %a, label %b",
        "a:",
        "br label %b",
        "b:",
        "%1 = phi ptr [ %tessera.managed.1, %entry ], [ null, %a ]",
        "ret void",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "internal global i32 0, align 4",
            "internal global ptr @values, align 8",
            "managed variable values .* in the initial value of valuesother",
        ),
        ("@values = internal", "@values = external", "values must be defined in the source"),
        ("BODY", "  ret i1 icmp eq (ptr @values, ptr null)", r"constant expression \(eq\)"),
        ("__cuda_gpubin_handle", "handle", "does not register device code"),
    ],
)
def test_what_cannot_be_rewritten_is_an_error(old: str, new: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        managed_variables.rewrite_host(_HOST.replace(old, new))


def test_a_module_without_managed_variables_stays_as_it_is() -> None:
    text = _HOST.replace("tessera.managed", "other.annotated")
    assert managed_variables.rewrite_host(text) == text


def test_the_device_gets_nvvms_mark_on_managed_variables_only() -> None:
    text = _HOST.replace("ptr @values,", "ptr addrspacecast (ptr addrspace(1) @values to ptr),")
    text += '!nvvm.annotations = !{!4}\n!4 = !{ptr @kernel, !"kernel", i32 1}\n'
    found = annotations.mark_device(text).splitlines()
    assert found[-2:] == [
        "!nvvm.annotations = !{!5}",
        '!5 = !{ptr addrspace(1) @values, !"managed", i32 1}',
    ]


_KERNELS = """\
@.mark = private unnamed_addr constant [21 x i8] c"tessera.cluster_dims\\00", section "m"
@.args = private unnamed_addr constant { i32, i32 } { i32 4, i32 2 }, section "m"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] \
[{ ptr, ptr, ptr, i32, ptr } { ptr @_Z6kernelv, ptr @.mark, ptr @.file, i32 2, ptr @.args }]
"""
_SIZES = '!"cluster_dim_x", i32 4, !"cluster_dim_y", i32 2, !"cluster_dim_z", i32 1'


def test_a_kernels_clusters_have_their_size_and_one_in_other_dimensions() -> None:
    found = annotations.mark_device(_KERNELS).splitlines()
    assert found[-2:] == ["!nvvm.annotations = !{!0}", f"!0 = !{{ptr @_Z6kernelv, {_SIZES}}}"]


def test_ptx_of_an_older_clang_gets_the_required_clusters() -> None:
    ptx = ".visible .entry other(\n)\n{\n}\n.visible .entry _Z6kernelv(\n)\n.maxntid 8\n{\n}\n"
    found = annotations.require_clusters(ptx, _KERNELS)
    required = ".maxntid 8\n.explicitcluster\n.reqnctapercluster 4, 2, 1\n{\n"
    assert found == ptx.replace(".maxntid 8\n{\n", required)
    assert annotations.require_clusters(found, _KERNELS) == found
    with pytest.raises(CompileError, match="no kernel _Z6kernelv"):
        annotations.require_clusters(".visible .entry other(\n)\n{\n}\n", _KERNELS)
