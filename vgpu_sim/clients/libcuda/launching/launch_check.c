#include "launching/launch_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "launching/occupancy.h"

enum reason { GRID, BLOCK, THREADS, SHARED, MOST_THREADS, SHAPE, CLUSTER, RESIDENT, PARAMETERS };

enum { COUNTS_CLUSTERS = 2 }; /* of tessera_function_record.needs_cluster */

__attribute__((format(printf, 5, 6))) static CUresult refuse(struct tsr_function *function,
                                                             const char *call, enum reason reason,
                                                             CUresult result, const char *format,
                                                             ...) {
  const uint32_t bit = 1u << reason;
  if (atomic_fetch_or(&function->refused, bit) & bit) return result;
  char why[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  tsr_log("%s, kernel %.200s: %s (CUDA error %d)", call, function->title, why, (int)result);
  return result;
}

static int64_t limit_of(const struct tsr_function *function, CUdevice_attribute first, int axis) {
  return tsr_device_attribute(function->context->device, first + (unsigned)axis, 0);
}

static CUresult check_device_limits(struct tsr_function *function,
                                    const struct tsr_geometry *launch) {
  static const char AXES[] = "xyz";
  const uint32_t *grid = launch->grid, *block = launch->block;
  uint64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    const int64_t most_threads = limit_of(function, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, i);
    const int64_t most_blocks = limit_of(function, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i);
    if (block[i] == 0 || block[i] > most_threads)
      return refuse(function, launch->call, BLOCK, CUDA_ERROR_INVALID_VALUE,
                    "%u threads of a block in %c; the device takes 1 to %lld (block %ux%ux%u)",
                    block[i], AXES[i], (long long)most_threads, block[0], block[1], block[2]);
    if (grid[i] == 0 || grid[i] > most_blocks)
      return refuse(function, launch->call, GRID, CUDA_ERROR_INVALID_VALUE,
                    "%u blocks of the grid in %c; the device takes 1 to %lld (grid %ux%ux%u)",
                    grid[i], AXES[i], (long long)most_blocks, grid[0], grid[1], grid[2]);
    threads *= block[i];
  }
  const int64_t most = limit_of(function, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
  if (threads <= (uint64_t)most) return CUDA_SUCCESS;
  return refuse(function, launch->call, THREADS, CUDA_ERROR_INVALID_VALUE,
                "block %ux%ux%u has %llu threads; the device takes %lld of a block", block[0],
                block[1], block[2], (unsigned long long)threads, (long long)most);
}

static CUresult refuse_shared(struct tsr_function *function, const struct tsr_geometry *launch,
                              int limit) {
  const int most =
      tsr_function_shared_limit(function, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  char remedy[120] = "";
  if (most > limit)
    snprintf(remedy, sizeof remedy,
             " (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES raises that up to %d)", most);
  return refuse(function, launch->call, SHARED, CUDA_ERROR_INVALID_VALUE,
                "%u bytes of dynamic shared memory beside %u of the kernel's own; it may ask for %d%s",
                launch->shared_bytes, function->record.shared_bytes, limit, remedy);
}

static CUresult check_cluster(struct tsr_function *function, const struct tsr_geometry *launch,
                              struct tsr_cluster *cluster) {
  static const char AXES[] = "xyz";
  char why[TSR_CLUSTER_WHY_BYTES];
  const CUresult result = tsr_cluster_find(function, launch->cluster, cluster, why);
  if (result != CUDA_SUCCESS) return refuse(function, launch->call, CLUSTER, result, "%s", why);
  for (int i = 0; i < 3; i++)
    if (launch->grid[i] % cluster->size[i] != 0)
      return refuse(function, launch->call, CLUSTER, CUDA_ERROR_INVALID_CLUSTER_SIZE,
                    "%u blocks of the grid in %c are not a multiple of the cluster's %u",
                    launch->grid[i], AXES[i], cluster->size[i]);
  if (cluster->is_stated && !(function->context->page->features & TESSERA_FEATURE_CLUSTERS))
    return refuse(function, launch->call, CLUSTER, CUDA_ERROR_NOT_SUPPORTED,
                  "a cluster, and the worker is of an older version that has none");
  return CUDA_SUCCESS;
}

bool tsr_launch_expand(const struct tsr_function *function, const struct tsr_geometry *launch,
                       struct tsr_geometry *whole) {
  const tessera_function_record *record = &function->record;
  if (record->needs_cluster != COUNTS_CLUSTERS) return false;
  *whole = *launch;
  const uint32_t *block = launch->block;
  if (block[0] == 1 && block[1] == 1 && block[2] == 1)
    memcpy(whole->block, record->required_block, sizeof whole->block);
  for (int i = 0; i < 3; i++) {
    const uint64_t blocks = (uint64_t)launch->grid[i] * record->required_cluster[i];
    whole->grid[i] = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
  }
  return true;
}

CUresult tsr_launch_check(struct tsr_function *function, const struct tsr_geometry *launch,
                          struct tsr_cluster *cluster) {
  const tessera_function_record *record = &function->record;
  const uint32_t *block = launch->block, *required = record->required_block;
  const CUresult result = check_device_limits(function, launch);
  if (result != CUDA_SUCCESS) return result;
  const int shared_limit = atomic_load(&function->dynamic_shared_limit);
  if (launch->shared_bytes > (uint32_t)shared_limit)
    return refuse_shared(function, launch, shared_limit);
  /* As NVIDIA's driver does: LAUNCH_OUT_OF_RESOURCES is for registers (ADR 156). */
  const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (record->max_threads && threads > record->max_threads)
    return refuse(function, launch->call, MOST_THREADS, CUDA_ERROR_INVALID_VALUE,
                  "block %ux%ux%u has %llu threads; the kernel is compiled for %u (its %s)",
                  block[0], block[1], block[2], (unsigned long long)threads, record->max_threads,
                  required[0] ? ".reqntid" : ".maxntid");
  if (required[0] && memcmp(required, block, sizeof launch->block) != 0)
    return refuse(function, launch->call, SHAPE, CUDA_ERROR_INVALID_VALUE,
                  "block %ux%ux%u; the kernel's .reqntid requires %ux%ux%u", block[0], block[1],
                  block[2], required[0], required[1], required[2]);
  const CUresult clusters = check_cluster(function, launch, cluster);
  if (clusters != CUDA_SUCCESS || !launch->cooperative) return clusters;
  const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  const uint64_t resident =
      launch->multiprocessors
          ? tsr_blocks_per_multiprocessor(function, threads, launch->shared_bytes) *
                launch->multiprocessors
          : tsr_resident_blocks(function, threads, launch->shared_bytes);
  if (blocks <= resident) return CUDA_SUCCESS;
  return refuse(function, launch->call, RESIDENT, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                "%llu blocks of a cooperative launch; the device holds %llu of them at a time",
                (unsigned long long)blocks, (unsigned long long)resident);
}

/* A buffer may be padded by up to 16 bytes, because compilers pass parameters as a structure. */
static bool fits(size_t given, size_t wanted) {
  return given >= wanted && given <= (wanted + 15) / 16 * 16;
}

CUresult tsr_launch_check_parameters(struct tsr_function *function, const char *call,
                                     void **parameters, const void *buffer, size_t buffer_bytes) {
  const tessera_function_record *record = &function->record;
  if (buffer_bytes != SIZE_MAX) {
    if (!fits(buffer_bytes, record->parameter_bytes))
      return refuse(function, call, PARAMETERS, CUDA_ERROR_INVALID_VALUE,
                    "the parameter buffer has %zu bytes; the kernel takes %u", buffer_bytes,
                    record->parameter_bytes);
    if (buffer || buffer_bytes == 0) return CUDA_SUCCESS;
    return tsr_launch_refuse_arguments(function, call, "the parameter buffer is a null pointer");
  }
  if (record->parameter_count == 0) return CUDA_SUCCESS;
  if (!parameters)
    return refuse(function, call, PARAMETERS, CUDA_ERROR_INVALID_VALUE,
                  "no parameters are given; the kernel takes %u", record->parameter_count);
  for (uint32_t i = 0; i < record->parameter_count; i++)
    if (!parameters[i])
      return refuse(function, call, PARAMETERS, CUDA_ERROR_INVALID_VALUE,
                    "parameter %u of %u is a null pointer: too few parameters?", i + 1,
                    record->parameter_count);
  return CUDA_SUCCESS;
}

CUresult tsr_launch_refuse_arguments(struct tsr_function *function, const char *call,
                                     const char *why) {
  return refuse(function, call, PARAMETERS, CUDA_ERROR_INVALID_VALUE, "%s", why);
}
