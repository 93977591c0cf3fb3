// The kernel of custom_operator.py: out = weight * x + bias, with one weight and bias per column.
#include <cuda_runtime.h>

template <typename T>
__global__ void scale_shift(const T *x, const T *weight, const T *bias, T *out, long rows, int columns) {
  const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < rows * columns) out[i] = weight[i % columns] * x[i] + bias[i % columns];
}

template <typename T>
static int launch(const void *x, const void *weight, const void *bias, void *out, long rows, int columns,
                  void *stream) {
  const long blocks = (rows * columns + 255) / 256;
  if (blocks)
    scale_shift<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T *>(x), static_cast<const T *>(weight), static_cast<const T *>(bias),
        static_cast<T *>(out), rows, columns);
  return cudaGetLastError();
}

extern "C" int scale_shift_float(const void *x, const void *weight, const void *bias, void *out, long rows,
                                 int columns, void *stream) {
  return launch<float>(x, weight, bias, out, rows, columns, stream);
}

extern "C" int scale_shift_double(const void *x, const void *weight, const void *bias, void *out, long rows,
                                  int columns, void *stream) {
  return launch<double>(x, weight, bias, out, rows, columns, stream);
}
