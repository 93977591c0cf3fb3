/* How many blocks and clusters of a kernel are active at once: overloads for types of kernels. */
#ifndef TESSERA_RUNTIME_OCCUPANCY_H
#define TESSERA_RUNTIME_OCCUPANCY_H

template <class T>
static inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, T kernel,
                                                         const cudaLaunchConfig_t *config) {
  return ::cudaOccupancyMaxActiveClusters(clusters, (const void *)kernel, config);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxPotentialClusterSize(int *blocks, T kernel,
                                                               const cudaLaunchConfig_t *config) {
  return ::cudaOccupancyMaxPotentialClusterSize(blocks, (const void *)kernel, config);
}
template <class T>
static inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, T *kernel,
                                                                    int blocks, int threads) {
  return ::cudaOccupancyAvailableDynamicSMemPerBlock(bytes, (const void *)kernel, blocks, threads);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, T kernel,
                                                                        int threads, size_t shared) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, threads,
                                                         shared);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, T kernel, int threads, size_t shared, unsigned int flags) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void *)kernel,
                                                                  threads, shared, flags);
}

/* Finds the block size with the most active threads; `shared_of(threads)` is the dynamic shared
 * memory that a block of a size needs. */
template <class SharedOf, class T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
    int *grid, int *block, T kernel, SharedOf shared_of, int limit = 0, unsigned int flags = 0) {
  int device, processors, best = 0;
  cudaFuncAttributes attributes;
  cudaError_t error = cudaGetDevice(&device);
  if (!error) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (!error) error = ::cudaFuncGetAttributes(&attributes, (const void *)kernel);
  if (error) return error;
  int most = attributes.maxThreadsPerBlock;
  if (limit > 0 && limit < most) most = limit;
  for (int threads = most; threads > 0; threads -= threads % 32 ? threads % 32 : 32) {
    int blocks = 0;
    error = ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &blocks, (const void *)kernel, threads, shared_of(threads), flags);
    if (error) return error;
    if (blocks * threads > best) {
      best = blocks * threads;
      *block = threads;
      *grid = blocks * processors;
    }
  }
  return cudaSuccess;
}
template <class SharedOf, class T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block,
                                                                         T kernel,
                                                                         SharedOf shared_of,
                                                                         int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, kernel, shared_of,
                                                                 limit);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                                      T kernel, size_t shared = 0,
                                                                      int limit = 0,
                                                                      unsigned int flags = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
      grid, block, kernel, [=](int) { return shared; }, limit, flags);
}
template <class T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, T kernel,
                                                             size_t shared = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeWithFlags(grid, block, kernel, shared, limit);
}

#endif
