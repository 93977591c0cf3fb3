"""What programs ask ``torch.cuda``: one device, its default stream and properties."""

from types import SimpleNamespace

from torch import driver
from torch.types import device


def is_available():
    """Return whether the driver finds a device."""
    return driver.library() is not None


def device_count():
    """Return the number of devices."""
    return 1


def current_device():
    """Return the number of the current device."""
    driver.library()
    return 0


def set_device(_number):
    """Accept the only device."""


def get_device_capability(_number=None):
    """Return the compute capability."""
    return driver.capability()


def get_device_name(_number=None):
    """Return the device's name."""
    return driver.name()


def get_device_properties(_number=None):
    """Return the device's properties."""
    major, minor = driver.capability()
    count = driver.multiprocessors()
    return SimpleNamespace(
        name=driver.name(), multi_processor_count=count, major=major, minor=minor
    )


def current_stream(_number=None):
    """Return the default stream."""
    return SimpleNamespace(cuda_stream=0)


def synchronize(_number=None):
    """Wait for all work."""
    driver.synchronize()


def empty_cache():
    """Do nothing: freed memory is not kept."""
