#include "modules/cluster.h"

#include <stdio.h>
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

static bool device_has_clusters(const struct tsr_function *function) {
  return tsr_device_attribute(function->context->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0) != 0;
}

uint32_t tsr_cluster_limit(const struct tsr_function *function) {
  if (!device_has_clusters(function)) return 1;
  const uint32_t limit = atomic_load(&function->non_portable_cluster)
                             ? TESSERA_MAX_CLUSTER_BLOCKS
                             : TESSERA_MAX_PORTABLE_CLUSTER_BLOCKS;
  const uint32_t own = function->record.max_cluster;
  return own != 0 && own < limit ? own : limit;
}

/* Whether a size exceeds a number of blocks; the product of the extents may not fit 64 bits. */
static bool exceeds(const uint32_t size[3], uint32_t limit) {
  uint64_t blocks = 1;
  for (int axis = 0; axis < 3; axis++) {
    if (size[axis] > limit) return true;
    blocks *= size[axis];
  }
  return blocks > limit;
}

static CUresult check_size(const struct tsr_function *function, const uint32_t size[3], char *why) {
  const uint32_t limit = tsr_cluster_limit(function), own = function->record.max_cluster;
  const bool is_positive = size[0] != 0 && size[1] != 0 && size[2] != 0;
  if (is_positive && !exceeds(size, limit)) return CUDA_SUCCESS;
  int end = snprintf(why, TSR_CLUSTER_WHY_BYTES, "a cluster of %ux%ux%u blocks", size[0], size[1],
                     size[2]);
  char *rest = why + end;
  const size_t room = TSR_CLUSTER_WHY_BYTES - (size_t)end;
  if (!is_positive) {
    snprintf(rest, room, "; each number must be at least 1");
  } else if (!device_has_clusters(function)) {
    snprintf(rest, room, ", and the device has no clusters (compute capability 9.0)");
    return CUDA_ERROR_NOT_SUPPORTED;
  } else if (own != 0 && exceeds(size, own)) {
    snprintf(rest, room, "; the kernel is compiled for at most %u (its .maxclusterrank)", own);
  } else {
    snprintf(rest, room, "; the device takes %u, and %u with"
             " CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
             (unsigned)TESSERA_MAX_PORTABLE_CLUSTER_BLOCKS, (unsigned)TESSERA_MAX_CLUSTER_BLOCKS);
  }
  return CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult tsr_cluster_find(const struct tsr_function *function, const uint32_t stated[3],
                          struct tsr_cluster *found, char why[TSR_CLUSTER_WHY_BYTES]) {
  uint32_t own[3];
  read_own(function, own);
  const bool states = !is_empty(stated), has_own = !is_empty(own);
  *found = (struct tsr_cluster){.size = {1, 1, 1}, .is_stated = states || has_own};
  if (!found->is_stated && function->record.needs_cluster) {
    snprintf(why, TSR_CLUSTER_WHY_BYTES, "no cluster is stated, but the kernel is compiled for clusters");
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  if (!found->is_stated) return CUDA_SUCCESS;
  memcpy(found->size, states ? stated : own, sizeof found->size);
  if (states && has_own && memcmp(stated, own, sizeof own) != 0) {
    snprintf(why, TSR_CLUSTER_WHY_BYTES,
             "a cluster of %ux%ux%u blocks; the kernel requires %ux%ux%u", stated[0], stated[1],
             stated[2], own[0], own[1], own[2]);
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  }
  return check_size(function, found->size, why);
}

uint16_t tsr_cluster_pack(const struct tsr_cluster *cluster) {
  const uint32_t *size = cluster->size;
  if (!cluster->is_stated) return 0;
  return (uint16_t)(TESSERA_CLUSTERED | (size[0] - 1) | (size[1] - 1) << 4 | (size[2] - 1) << 8);
}

CUresult tsr_cluster_get_attribute(const struct tsr_function *function,
                                   CUfunction_attribute attribute, int *value) {
  uint32_t own[3];
  read_own(function, own);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = function->record.needs_cluster != 0 && own[0] == 0;
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
