/* Launches of kernels. */
#include <stdbool.h>
#include <limits.h>

#include "api.h"
#include "code/launch.h"
#include "code/registry.h"

/* The driver takes a kernel in place of a function, and finds the function of the context itself. */
static cudaError_t launchable(const void *func, size_t shared_bytes, cudaFunction_t *function) {
  cudaKernel_t kernel;
  if (shared_bytes > UINT_MAX) return cudaErrorInvalidValue;
  const cudaError_t result = tsr_kernel_of(func, &kernel);
  *function = (cudaFunction_t)kernel;
  return result;
}

/* Whether a size is from 1 to the limits that all devices have, on each axis. */
static bool is_within(struct dim3 size, struct dim3 limits) {
  return size.x - 1 < limits.x && size.y - 1 < limits.y && size.z - 1 < limits.z;
}

/* The runtime has its own errors for an unknown kernel, and for a grid or block of a size that no
   device launches. */
static cudaError_t runtime_error(cudaError_t result, struct dim3 grid, struct dim3 block) {
  const struct dim3 most_blocks = {INT_MAX, 65535, 65535}, most_threads = {1024, 1024, 64};
  if (result == CUDA_ERROR_INVALID_HANDLE) return cudaErrorInvalidDeviceFunction;
  const bool valid = is_within(grid, most_blocks) && is_within(block, most_threads) &&
                     (uint64_t)block.x * block.y * block.z <= 1024;
  if (result == cudaErrorInvalidValue && !valid) return cudaErrorInvalidConfiguration;
  return result;
}

cudaError_t tsr_cudaLaunchKernel(const void *func, struct dim3 gridDim, struct dim3 blockDim,
                                 void **args, size_t sharedMem, cudaStream_t stream) {
  cudaFunction_t function;
  cudaError_t result = launchable(func, sharedMem, &function);
  if (result != cudaSuccess) return result;
  result = cuLaunchKernel(function, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y,
                          blockDim.z, (unsigned)sharedMem, stream, args, NULL);
  return __builtin_expect(result == cudaSuccess, 1) ? result
                                                    : runtime_error(result, gridDim, blockDim);
}

cudaError_t tsr___cudaLaunchKernel(cudaKernel_t kernel, struct dim3 gridDim, struct dim3 blockDim,
                                   void **args, size_t sharedMem, cudaStream_t stream) {
  return tsr_cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t tsr_cudaLaunchCooperativeKernel(const void *func, struct dim3 gridDim,
                                            struct dim3 blockDim, void **args, size_t sharedMem,
                                            cudaStream_t stream) {
  cudaFunction_t function;
  cudaError_t result = launchable(func, sharedMem, &function);
  if (result != cudaSuccess) return result;
  result = cuLaunchCooperativeKernel(function, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                                     blockDim.y, blockDim.z, (unsigned)sharedMem, stream, args);
  return runtime_error(result, gridDim, blockDim);
}

cudaError_t tsr_launch_config(const cudaLaunchConfig_t *config, struct CUlaunchConfig *out) {
  if (!config || config->dynamicSmemBytes > UINT_MAX) return cudaErrorInvalidValue;
  *out = (struct CUlaunchConfig){
      .grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z},
      .block = {config->blockDim.x, config->blockDim.y, config->blockDim.z},
      .shared_bytes = (unsigned)config->dynamicSmemBytes,
      .stream = config->stream,
      .attributes = config->attrs,
      .attribute_count = config->numAttrs,
  };
  return cudaSuccess;
}

static cudaError_t launch(const cudaLaunchConfig_t *config, const void *func, void **args,
                          bool per_thread) {
  struct CUlaunchConfig driver;
  cudaFunction_t function;
  cudaError_t result = tsr_launch_config(config, &driver);
  if (result == cudaSuccess) result = launchable(func, config->dynamicSmemBytes, &function);
  if (result != cudaSuccess) return result;
  if (per_thread && !driver.stream) driver.stream = cudaStreamPerThread;
  result = cuLaunchKernelEx(&driver, function, args, NULL);
  return runtime_error(result, config->gridDim, config->blockDim);
}

cudaError_t tsr_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args) {
  return launch(config, func, args, false);
}

cudaError_t tsr_cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func,
                                         void **args) {
  return launch(config, func, args, true);
}
