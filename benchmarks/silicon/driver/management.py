"""NVML's getters: the status and the value of each, through the ``pynvml`` module."""

import ctypes
import inspect
import re
from typing import Any

IDENTITIES = re.compile(
    "uuid|serial|PciInfo|^busId|^bus$|^device$|^domain$|GetIndex|BoardId|MinorNumber|Processes|hostname"
    "|ProcessName|vbios|attestation|certificate|PlatformInfo|^pid|boardPartNumber|HandleBy",
    re.IGNORECASE,
)


def getters() -> list[str]:
    """Return the names of getters that answer about one device or the system."""
    import pynvml

    getter_names = []
    for name, member in sorted(vars(pynvml).items()):
        if re.match(
            r"nvml(Device|System|GpuInstance)(Get|Is|Has|Validate)", name
        ) and inspect.isfunction(member):
            getter_names.append(name)
    return getter_names


def show(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON: structures become the values of their fields."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if depth > 4:
        return "deep"
    if isinstance(value, ctypes.Structure):
        fields = [field[0] for field in value._fields_]
        return {
            name: "-" if IDENTITIES.search(name) else show(getattr(value, name), depth + 1)
            for name in fields
        }
    if isinstance(value, list | tuple | ctypes.Array):
        return [show(element, depth + 1) for element in list(value)[:64]]
    if hasattr(value, "value"):
        return show(value.value, depth + 1)
    return type(value).__name__


def call(function: Any, *arguments: Any) -> list[Any]:
    """Return a getter's status and value."""
    import pynvml

    try:
        return [0, show(function(*arguments))]
    except pynvml.NVMLError as err:
        return [int(err.value)]
    except (TypeError, ValueError, AttributeError, ctypes.ArgumentError, KeyError) as err:
        return [type(err).__name__]


def questions() -> list[str]:
    """Return the getters, and the field values."""
    try:
        return [*getters(), *(f"field {i}" for i in range(1, 300)), "texts", "profiles"]
    except ImportError:
        return []


def ask(question: str) -> Any:
    """Return what a getter returns for each of its small arguments."""
    import pynvml

    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    if question.startswith("field "):
        field = pynvml.nvmlDeviceGetFieldValues(device, [int(question.split()[1])])[0]
        return [
            field.nvmlReturn,
            field.valueType,
            field.value.ullVal if not field.nvmlReturn else None,
        ]
    if question == "texts":
        return {
            code: pynvml.nvmlErrorString(code).decode()
            if isinstance(pynvml.nvmlErrorString(code), bytes)
            else pynvml.nvmlErrorString(code)
            for code in (*range(32), 999)
        }
    if question == "profiles":
        return [call(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, device, i) for i in range(20)]
    if IDENTITIES.search(question):
        return "identity"
    function = getattr(pynvml, question)
    names = [
        parameter_name
        for parameter_name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    start: list[Any] = []
    if names and "Device" in question:
        start, names = [device], names[1:]
    if not names:
        return call(function, *start)
    if len(names) == 1:
        return {str(i): call(function, *start, i) for i in range(24)}
    if len(names) == 2:
        return {f"{i} {j}": call(function, *start, i, j) for i in range(8) for j in range(6)}
    return "not called"
