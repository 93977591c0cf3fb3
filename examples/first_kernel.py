"""CUDA C++ compiled when the program runs: NVRTC makes PTX, cuda.core loads and launches it."""

import numpy as np
from cuda.core import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = """
extern "C" __global__ void scale(float *values, float factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}
"""
COUNT, BLOCK = 1000, 256

device = Device()
device.set_current()
stream = device.create_stream()

major, minor = device.compute_capability
options = ProgramOptions(std="c++17", arch=f"sm_{major}{minor}")
module = Program(SOURCE, code_type="c++", options=options).compile("ptx")  # not "cubin"
kernel = module.get_kernel("scale")

buffer = LegacyPinnedMemoryResource().allocate(4 * COUNT)  # host memory that kernels access
values = np.from_dlpack(buffer).view(np.float32)
values[:] = np.arange(COUNT)

config = LaunchConfig(grid=-(-COUNT // BLOCK), block=BLOCK)
launch(stream, config, kernel, buffer, np.float32(0.5), np.int32(COUNT))
stream.sync()

np.testing.assert_array_equal(values, np.arange(COUNT, dtype=np.float32) / 2)
print(f"{COUNT} results verified")
