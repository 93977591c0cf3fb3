#include "modules/cluster.h"

#include <string.h>

#include "base/device.h"

enum { LOAD_BALANCING = 2 }; /* the last CUclusterSchedulingPolicy */

static bool is_empty(const uint32_t size[3]) { return size[0] == 0 && size[1] == 0 && size[2] == 0; }

/* The size that the function's code or, if it has none, its attributes state. */
static void read_own(const struct tsr_function *function, uint32_t size[3]) {
  memcpy(size, function->record.required_cluster, 3 * sizeof *size);
  if (!is_empty(size)) return;
  for (int axis = 0; axis < 3; axis++) size[axis] = atomic_load(&function->cluster[axis]);
}

uint32_t tsr_cluster_limit(const struct tsr_function *function) {
  if (tsr_device_attribute(function->context->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) == 0)
    return 1;
  return atomic_load(&function->non_portable_cluster) ? TESSERA_MAX_CLUSTER_BLOCKS
                                                      : TESSERA_MAX_PORTABLE_CLUSTER_BLOCKS;
}

CUresult tsr_cluster_find(const struct tsr_function *function, const uint32_t stated[3],
                          uint32_t size[3], const char **why) {
  uint32_t own[3];
  read_own(function, own);
  const bool states = !is_empty(stated), has_own = !is_empty(own);
  const uint32_t *found = states ? stated : own;
  if (states && has_own && memcmp(stated, own, sizeof own) != 0) {
    *why = "a cluster of %u blocks, of another shape than the kernel requires";
  } else if (!states && !has_own && function->record.needs_cluster) {
    *why = "no cluster is stated (%u blocks), but the kernel is compiled for clusters";
  } else if (!states && !has_own) {
    size[0] = size[1] = size[2] = 1;
    return CUDA_SUCCESS;
  } else {
    const uint64_t blocks = (uint64_t)found[0] * found[1] * found[2];
    memcpy(size, found, 3 * sizeof *size);
    if (blocks != 0 && (found[0] | found[1] | found[2]) <= 1023 && blocks <= tsr_cluster_limit(function))
      return CUDA_SUCCESS;
    *why = "a cluster of %u blocks; the device takes 8, and 16 with"
           " CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED";
    if (blocks > 1 && tsr_cluster_limit(function) == 1) {
      *why = "a cluster of %u blocks, and the device has no clusters (compute capability 9.0)";
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  memcpy(size, found, 3 * sizeof *size);
  return CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

uint16_t tsr_cluster_pack(const struct tsr_function *function, const uint32_t stated[3]) {
  uint32_t own[3];
  read_own(function, own);
  const uint32_t *size = is_empty(stated) ? own : stated;
  if (is_empty(size)) return 0;
  return (uint16_t)(TESSERA_CLUSTERED | (size[0] - 1) | (size[1] - 1) << 4 | (size[2] - 1) << 8);
}

CUresult tsr_cluster_get_attribute(const struct tsr_function *function,
                                   CUfunction_attribute attribute, int *value) {
  uint32_t own[3];
  read_own(function, own);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = function->record.needs_cluster != 0;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = (int)own[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = atomic_load(&function->non_portable_cluster);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = atomic_load(&function->cluster_policy);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult tsr_cluster_set_attribute(struct tsr_function *function, CUfunction_attribute attribute,
                                   int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      if (!is_empty(function->record.required_cluster)) return CUDA_ERROR_NOT_PERMITTED;
      if (value < 0) return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&function->cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH],
                   (uint32_t)value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      if (value != 0 && value != 1) return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&function->non_portable_cluster, value != 0);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: /* only a hint */
      if (value < 0 || value > LOAD_BALANCING) return CUDA_ERROR_INVALID_VALUE;
      atomic_store(&function->cluster_policy, value);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
