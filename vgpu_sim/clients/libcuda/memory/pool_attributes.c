/* Attributes, access and trimming of memory pools. */
#include <string.h>

#include "api.h"
#include "base/device.h"
#include "base/refuse.h"
#include "exchange/unsafe.h"
#include "memory/peers.h"
#include "memory/pool.h"

static struct tsr_pool *find(CUmemoryPool handle) { return TSR_FIND(tsr_pool, TSR_POOL, handle); }

CUresult tsr_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  struct tsr_pool *found = find(pool);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  tsr_pool_release(found, NULL, minBytesToKeep);
  return CUDA_SUCCESS;
}

static bool is_reuse(CUmemPool_attribute attr) {
  return attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* Under the pool lock. */
static CUresult set(struct tsr_pool *pool, CUmemPool_attribute attr, const void *value) {
  uint64_t wide = 0;
  if (is_reuse(attr)) {
    int flag;
    memcpy(&flag, value, sizeof flag);
    pool->reuse[attr - 1] = flag != 0;
    return CUDA_SUCCESS;
  }
  if (attr < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD || attr > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(&wide, value, sizeof wide);
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->release_threshold = wide;
    return CUDA_SUCCESS;
  }
  if (wide != 0) return CUDA_ERROR_INVALID_VALUE; /* a maximum can only be reset */
  if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    pool->reserved_high_bytes = pool->reserved_bytes;
  else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    pool->used_high_bytes = pool->used_bytes;
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/* Under the pool lock; `*bytes` is the attribute's size. */
static bool get(const struct tsr_pool *pool, CUmemPool_attribute attr, uint64_t *value,
                size_t *bytes) {
  *bytes = sizeof(int);
  if (is_reuse(attr)) {
    *value = pool->reuse[attr - 1];
    return true;
  }
  switch (attr) {
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
      *value = pool->props.allocType;
      return true;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
      *value = pool->props.handleTypes;
      return true;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
      *value = (uint64_t)(int64_t)pool->props.location.id;
      return true;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
      *value = pool->props.location.type;
      return true;
    case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
      *value = 0;
      return true;
    default:
      break;
  }
  *bytes = sizeof(uint64_t);
  switch (attr) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *value = pool->release_threshold;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *value = pool->reserved_bytes;
      return true;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *value = pool->reserved_high_bytes;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *value = pool->used_bytes;
      return true;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *value = pool->used_high_bytes;
      return true;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
      *value = pool->props.maxSize;
      return true;
    default:
      return false;
  }
}

CUresult tsr_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_pool *found = find(pool);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_pool_lock);
  const CUresult result = set(found, attr, value);
  pthread_mutex_unlock(&tsr_pool_lock);
  return result;
}

CUresult tsr_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  const struct tsr_pool *found = find(pool);
  uint64_t got;
  size_t bytes;
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_pool_lock);
  const bool known = get(found, attr, &got, &bytes);
  pthread_mutex_unlock(&tsr_pool_lock);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  memcpy(value, &got, bytes); /* little-endian */
  return CUDA_SUCCESS;
}

/* Whether kernels or host code at a location can access the pool's memory. */
static bool reaches(const struct tsr_pool *pool, const CUmemLocation *location) {
  const bool is_host = pool->device < 0 || pool->props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
    return is_host || location->id == pool->device;
  return is_host;
}

static bool is_location(const CUmemLocation *location) {
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) return tsr_device(location->id) != NULL;
  return location->type >= CU_MEM_LOCATION_TYPE_HOST &&
         location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static bool is_peer(const struct tsr_pool *pool, const CUmemLocation *location) {
  return location->type == CU_MEM_LOCATION_TYPE_DEVICE && !reaches(pool, location) &&
         !pool->imported && tsr_peers_reach(tsr_device(location->id), tsr_device(pool->device));
}

/* Only other whole GPUs get and lose access: that of the pool's own location cannot be revoked, as
 * in CUDA. */
CUresult tsr_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  struct tsr_pool *found = find(pool);
  if (!found || !map || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t before = atomic_load(&found->peers);
  uint32_t peers = before;
  for (size_t i = 0; i < count; i++) {
    const CUmemAccessDesc one = map[i];
    if (!is_location(&one.location)) return CUDA_ERROR_INVALID_VALUE;
    const bool wanted = one.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (!wanted && one.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_INVALID_VALUE;
    if (is_peer(found, &one.location)) {
      const uint32_t bit = UINT32_C(1) << one.location.id;
      peers = wanted ? peers | bit : peers & ~bit;
    } else if (wanted != reaches(found, &one.location)) {
      if (wanted && found->imported)
        TSR_REFUSE("cuMemPoolSetAccess of another GPU to a pool of another process");
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  if (peers == before) return CUDA_SUCCESS;
  atomic_store(&found->peers, peers);
  const CUresult result = tsr_peers_revise();
  if (result == CUDA_SUCCESS) return result;
  atomic_store(&found->peers, before);
  tsr_peers_revise();
  return result;
}

CUresult tsr_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                CUmemLocation *location) {
  const struct tsr_pool *found = find(memPool);
  if (!flags || !found || !location || !is_location(location)) return CUDA_ERROR_INVALID_VALUE;
  const bool open = is_peer(found, location)
                        ? atomic_load(&found->peers) >> location->id & 1
                        : reaches(found, location);
  *flags = open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
