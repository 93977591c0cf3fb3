/* Occupancy of kernels. */
#include "api.h"
#include "code/launch.h"
#include "code/registry.h"

cudaError_t tsr_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks,
                                                                       const void *func,
                                                                       int blockSize,
                                                                       size_t dynamicSMemSize,
                                                                       unsigned int flags) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  if (result != cudaSuccess) return result;
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize,
                                                              dynamicSMemSize, flags);
}

cudaError_t tsr_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                              int blockSize,
                                                              size_t dynamicSMemSize) {
  return tsr_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                    dynamicSMemSize, 0);
}

cudaError_t tsr_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                          int numBlocks, int blockSize) {
  cudaFunction_t function;
  const cudaError_t result = tsr_function_of(func, &function);
  if (result != cudaSuccess) return result;
  return cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function, numBlocks, blockSize);
}

cudaError_t tsr_cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                     const cudaLaunchConfig_t *launchConfig) {
  cudaFunction_t function;
  struct CUlaunchConfig driver;
  cudaError_t result = tsr_launch_config(launchConfig, &driver);
  if (result == cudaSuccess) result = tsr_function_of(func, &function);
  if (result != cudaSuccess) return result;
  return cuOccupancyMaxPotentialClusterSize(clusterSize, function, &driver);
}

cudaError_t tsr_cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                               const cudaLaunchConfig_t *launchConfig) {
  cudaFunction_t function;
  struct CUlaunchConfig driver;
  cudaError_t result = tsr_launch_config(launchConfig, &driver);
  if (result == cudaSuccess) result = tsr_function_of(func, &function);
  if (result != cudaSuccess) return result;
  return cuOccupancyMaxActiveClusters(numClusters, function, &driver);
}
