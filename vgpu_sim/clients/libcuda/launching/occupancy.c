/* Occupancy: threads, blocks, registers and shared memory of a multiprocessor, each in its unit
 * (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the
 * occupancy calculator's allocation units, which are the same from compute capability 7.0 on). */
#include "launching/occupancy.h"

#include <string.h>

#include "api.h"
#include "base/device.h"
#include "modules/cluster.h"
#include "modules/function.h"

enum { WARP_THREADS = 32, REGISTER_UNIT = 256, MAX_REGISTERS_PER_THREAD = 255, SHARED_UNIT = 128 };
enum { DISABLE_CACHING_OVERRIDE = 1 };

static uint64_t attribute(const struct tsr_function *function, unsigned which) {
  const int value = tsr_device_attribute(function->context->device, which, 0);
  return value > 0 ? (uint64_t)value : 0;
}

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Return the number of blocks, as limited by everything but shared memory. */
static uint64_t blocks_by_threads(const struct tsr_function *function, uint64_t threads) {
  const tessera_function_record *record = &function->record;
  const uint64_t limit = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (threads == 0 || threads > limit) return 0;
  const uint64_t warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
  const uint64_t most_threads = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  uint64_t blocks = least(most_threads / WARP_THREADS / warps,
                          attribute(function, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR));
  const uint64_t registers = least(record->registers, MAX_REGISTERS_PER_THREAD);
  if (registers != 0) {
    const uint64_t of_warp = round_up(registers * WARP_THREADS, REGISTER_UNIT);
    const uint64_t all = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    blocks = least(blocks, all / of_warp / warps);
  }
  return blocks;
}

uint32_t tsr_blocks_per_multiprocessor(const struct tsr_function *function, uint64_t threads,
                                       uint64_t dynamic_bytes) {
  const uint64_t most = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  const uint64_t own = function->record.shared_bytes;
  if (own > most || dynamic_bytes > most - own) return 0;
  const uint64_t reserved = attribute(function, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  const uint64_t bytes = round_up(own + dynamic_bytes + reserved, SHARED_UNIT);
  const uint64_t all = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  const uint64_t blocks = blocks_by_threads(function, threads);
  return (uint32_t)(bytes != 0 ? least(blocks, all / bytes) : blocks);
}

uint64_t tsr_resident_blocks(const struct tsr_function *function, uint64_t threads,
                             uint64_t dynamic_bytes) {
  return tsr_blocks_per_multiprocessor(function, threads, dynamic_bytes) *
         attribute(function, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
}

/* Return the blocks that fit with a launch's dynamic shared memory: none if a launch with it would
 * be refused. */
static uint64_t launchable_blocks(const struct tsr_function *function, uint64_t threads,
                                  uint64_t dynamic_bytes) {
  const uint64_t plain = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  const uint64_t own = function->record.shared_bytes;
  const int most = atomic_load(&function->dynamic_shared_limit);
  if (own + dynamic_bytes > plain && (most < 0 || dynamic_bytes > (uint64_t)most)) return 0;
  return tsr_blocks_per_multiprocessor(function, threads, dynamic_bytes);
}

CUresult tsr_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                                  int blockSize,
                                                                  size_t dynamicSMemSize,
                                                                  unsigned int flags) {
  if (!numBlocks || blockSize <= 0 || (flags & ~(unsigned)DISABLE_CACHING_OVERRIDE))
    return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, *numBlocks = (int)launchable_blocks(function, (uint64_t)blockSize,
                                                          dynamicSMemSize));
}

CUresult tsr_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
                                                         int blockSize, size_t dynamicSMemSize) {
  return tsr_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

/* Find the largest dynamic shared memory that a launch may have while the given number of blocks
 * fits. Real drivers divide the multiprocessor's memory evenly, and neither round the result down
 * nor subtract the memory that the system reserves (measured: docs/silicon.md). */
static CUresult available_shared(const struct tsr_function *function, uint64_t blocks,
                                 uint64_t threads, size_t *bytes) {
  const uint64_t all = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  const uint64_t own = function->record.shared_bytes;
  const int most = atomic_load(&function->dynamic_shared_limit);
  if (blocks_by_threads(function, threads) < blocks || own > all / blocks)
    return CUDA_ERROR_INVALID_VALUE;
  *bytes = least(most > 0 ? (uint64_t)most : 0, all / blocks - own);
  return CUDA_SUCCESS;
}

CUresult tsr_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                     int numBlocks, int blockSize) {
  if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0) return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, result = available_shared(function, (uint64_t)numBlocks,
                                                    (uint64_t)blockSize, dynamicSmemSize));
}

/* Find the block size, in whole warps, that maximises the number of resident threads; if there
 * are several, the largest. A callback of the program returns the shared memory for a block
 * size. */
static void best_block(const struct tsr_function *function, CUoccupancyB2DSize shared_of,
                       size_t shared_bytes, uint64_t limit, int *grid, int *block) {
  uint64_t most = attribute(function, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (function->record.max_threads != 0) most = least(most, function->record.max_threads);
  if (limit == 0 || limit > most) limit = most;
  uint64_t best = 0;
  *grid = *block = 0;
  for (uint64_t size = round_up(limit, WARP_THREADS); size != 0; size -= WARP_THREADS) {
    const uint64_t threads = least(size, limit);
    const size_t bytes = shared_of ? shared_of((int)threads) : shared_bytes;
    const uint64_t blocks = launchable_blocks(function, threads, bytes);
    if (blocks * threads <= best) continue;
    best = blocks * threads;
    *block = (int)threads;
    *grid = (int)(blocks * attribute(function, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  }
}

CUresult tsr_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                       CUfunction func,
                                                       CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                       size_t dynamicSMemSize, int blockSizeLimit,
                                                       unsigned int flags) {
  if (!minGridSize || !blockSize || blockSizeLimit < 0 ||
      (flags & ~(unsigned)DISABLE_CACHING_OVERRIDE))
    return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, best_block(function, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                 (uint64_t)blockSizeLimit, minGridSize, blockSize));
}

CUresult tsr_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                              CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                              size_t dynamicSMemSize, int blockSizeLimit) {
  return tsr_cuOccupancyMaxPotentialBlockSizeWithFlags(
      minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

/* Read the size of a launch's clusters; zeros if the launch states none. */
static void read_cluster(const CUlaunchConfig *config, uint32_t size[3]) {
  memset(size, 0, 3 * sizeof *size);
  for (unsigned i = 0; i < config->numAttrs; i++)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      memcpy(size, config->attrs[i].value, 3 * sizeof *size);
}

static uint64_t threads_of(const CUlaunchConfig *config) {
  return (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
}

/* Find the clusters of a launch, whose grid they must divide. */
static CUresult find_cluster(const struct tsr_function *function, const CUlaunchConfig *config,
                             struct tsr_cluster *found) {
  uint32_t stated[3];
  char why[TSR_CLUSTER_WHY_BYTES];
  const uint32_t grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  if (!grid[0] || !grid[1] || !grid[2]) return CUDA_ERROR_INVALID_VALUE;
  read_cluster(config, stated);
  const CUresult result = tsr_cluster_find(function, stated, found, why);
  if (result != CUDA_SUCCESS) return result;
  for (int axis = 0; axis < 3; axis++)
    if (grid[axis] % found->size[axis] != 0) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  return threads_of(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A device holds as many clusters as their blocks fit, whatever groups its multiprocessors form. A
 * multiprocessor holds at most eight blocks of clusters (measured: docs/silicon.md). */
static CUresult active_clusters(const struct tsr_function *function, const CUlaunchConfig *config,
                                int *clusters) {
  enum { CLUSTER_BLOCKS_PER_MULTIPROCESSOR = 8 };
  struct tsr_cluster found;
  const CUresult result = find_cluster(function, config, &found);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t blocks = least(launchable_blocks(function, threads_of(config), config->sharedMemBytes),
                                CLUSTER_BLOCKS_PER_MULTIPROCESSOR) *
                          attribute(function, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  *clusters = 0;
  if (found.is_stated)
    *clusters = (int)(blocks / ((uint64_t)found.size[0] * found.size[1] * found.size[2]));
  return CUDA_SUCCESS;
}

CUresult tsr_cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                          const CUlaunchConfig *config) {
  if (!numClusters || !config || (config->numAttrs && !config->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, result = active_clusters(function, config, numClusters));
}

static CUresult largest_cluster(const struct tsr_function *function, const CUlaunchConfig *config,
                                int *size) {
  struct tsr_cluster found;
  const CUresult result = find_cluster(function, config, &found);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t blocks = launchable_blocks(function, threads_of(config), config->sharedMemBytes) *
                          attribute(function, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  *size = (int)least(tsr_cluster_limit(function), blocks);
  return CUDA_SUCCESS;
}

CUresult tsr_cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                                const CUlaunchConfig *config) {
  if (!clusterSize || !config || (config->numAttrs && !config->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  TSR_WITH_FUNCTION(func, result = largest_cluster(function, config, clusterSize));
}
