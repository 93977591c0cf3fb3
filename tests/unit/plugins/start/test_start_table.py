"""The table of frameworks: variables, and the CUDA for which a package was built."""

from pathlib import Path

import pytest

from tessera_start import table

FLAG = table.Variable("XLA_FLAGS", "--xla_level=0", True, ("jax",))
PLAIN = table.Variable("TF_GROWTH", "true", False, ("tensorflow",))


@pytest.mark.parametrize(
    ("variable", "current", "expected"),
    [
        (FLAG, None, "--xla_level=0"),
        (FLAG, "", "--xla_level=0"),
        (FLAG, "--other --xla_level_of=4", "--other --xla_level_of=4 --xla_level=0"),
        (FLAG, "--xla_level=4", "--xla_level=4"),
        (FLAG, "--other=1  --xla_level", "--other=1  --xla_level"),
        (PLAIN, None, "true"),
        (PLAIN, "false", "false"),
        (PLAIN, "", ""),
    ],
)
def test_a_variable_is_set_and_a_flag_appended_unless_the_user_chose(
    variable: table.Variable, current: str | None, expected: str
) -> None:
    assert table.new_value(variable, current) == expected


# As the files of PyTorch 2.15, JAX 0.10, TensorFlow 2.21 and ONNX Runtime 1.26 are.
PACKAGES = {
    "torch": {"torch/version.py": "debug = False\ncuda: Optional[str] = '13.2'\nhip = None\n"},
    "jax": {"jax/__init__.py": "", "jax_plugins/xla_cuda13/__init__.py": "import ctypes\n"},
    "tensorflow": {
        "tensorflow/python/platform/build_info.py": (
            "build_info = OrderedDict([('cpu', 'x'), ('cuda_version', '12.5.1')])\n"
        )
    },
    "onnxruntime": {
        "onnxruntime/capi/build_and_package_info.py": (
            "package_name = 'onnxruntime-gpu'\ncuda_version = '12.8'\n"
        )
    },
}
CPU_PACKAGES = {
    "torch": {"torch/version.py": "cuda: Optional[str] = None\nhip: Optional[str] = '6.1'\n"},
    "jax": {"jax/__init__.py": ""},
    "tensorflow": {"tensorflow/python/platform/build_info.py": "OrderedDict([('cpu', 'x')])\n"},
    "onnxruntime": {"onnxruntime/capi/build_and_package_info.py": "package_name = 'o'\n"},
}
CUDA = {"torch": "13", "jax": "13", "tensorflow": "12", "onnxruntime": "12"}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_the_cuda_of_every_framework_is_found(tmp_path: Path) -> None:
    frameworks, _ = table.read()
    assert set(frameworks) == set(PACKAGES)
    (tmp_path / "empty").mkdir()
    for module, framework in frameworks.items():
        path = [str(tmp_path / "empty"), str(tmp_path / module)]
        assert table.find_cuda(framework, path) == (False, "")
        write(tmp_path / module, PACKAGES[module])
        assert table.find_cuda(framework, path) == (True, CUDA[module])
        write(tmp_path / "empty", CPU_PACKAGES[module])
        assert table.find_cuda(framework, path) == (True, ""), "the first of a name is imported"


def test_every_variable_belongs_to_known_frameworks() -> None:
    frameworks, variables = table.read()
    assert {one for variable in variables for one in variable.frameworks} <= set(frameworks)
    assert set(table.defaults()) == {one.name for one in variables if not one.append}
