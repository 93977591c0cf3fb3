/* Export and import of memory pools. A pool's descriptor holds a name without memory, whose tag
 * the names of the pool's allocations repeat. */
#include <string.h>

#include "api.h"
#include "base/device.h"
#include "contexts/context.h"
#include "memory/pool.h"
#include "sharing/opened.h"
#include "contexts/pool_context.h"

_Static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(tessera_shared_memory), "data hold a name");

static struct tsr_pool *find(CUmemoryPool handle) { return TSR_FIND(tsr_pool, TSR_POOL, handle); }

static bool is_exportable(const struct tsr_pool *pool) {
  return pool && !pool->imported && pool->props.handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
}

static uint64_t tag_of(const tessera_shared_memory *name) {
  uint64_t tag;
  memcpy(&tag, name->key, sizeof tag);
  return tag;
}

static uint64_t device_tag(const struct tsr_device *device) {
  uint64_t tag;
  memcpy(&tag, device->slice.info.uuid, sizeof tag);
  return tag;
}

/* Name a pool, unless it has a name. With `lasting`, name it again if the context that named it has
 * ended, because nothing opens that name any more. */
static CUresult name_pool(struct tsr_context *context, struct tsr_pool *pool, bool lasting) {
  tessera_shared_memory name;
  pthread_mutex_lock(&tsr_pool_lock);
  const uint64_t tag = pool->shared_tag;
  memcpy(&name, pool->shared_name, sizeof name);
  pthread_mutex_unlock(&tsr_pool_lock);
  uint64_t address;
  if (tag && (!lasting || tsr_share_own(&name, &address))) return CUDA_SUCCESS;
  const uint32_t kind = pool->device < 0 ? TESSERA_CHUNK_KIND_HOST : TESSERA_CHUNK_KIND_DEVICE;
  const CUresult result =
      tsr_share_offer(context, 0, 0, kind, TSR_SHARE_POOL,
                                          device_tag(context->device), &name);
  if (result != CUDA_SUCCESS) return result;
  name.kind = (uint16_t)kind;
  pthread_mutex_lock(&tsr_pool_lock);
  if (pool->shared_tag == tag) {
    memcpy(pool->shared_name, &name, sizeof name);
    pool->shared_tag = tag_of(&name);
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
  TSR_CURRENT(context);
  struct tsr_pool *found = find(pool);
  if (!handle_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !is_exportable(found))
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = name_pool(context, found, true);
  if (result != CUDA_SUCCESS) return result;
  tessera_shared_memory name;
  pthread_mutex_lock(&tsr_pool_lock);
  memcpy(&name, found->shared_name, sizeof name);
  pthread_mutex_unlock(&tsr_pool_lock);
  const int fd = tsr_share_to_descriptor(&name);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)handle_out = fd;
  return CUDA_SUCCESS;
}

/* Return the device whose memory a pool's name is of, or -1. */
static int device_of(const tessera_shared_memory *name) {
  for (int ordinal = 0; tsr_device(ordinal); ordinal++)
    if (device_tag(tsr_device(ordinal)) == name->tag) return ordinal;
  return -1;
}

/* Programs import pools before they have a context. Then nothing is verified yet: the worker
 * verifies each pointer of the pool. */
static CUresult verify(const tessera_shared_memory *name) {
  CUresult why;
  struct tsr_context *context = tsr_context_current_any(&why);
  uint64_t address;
  if (!context || tsr_share_own(name, &address)) return CUDA_SUCCESS;
  tessera_shared_memory pool = {.purpose = TSR_SHARE_POOL, .tag = name->tag};
  memcpy(pool.key, name->key, sizeof pool.key);
  return tsr_opened_verify(context, &pool);
}

CUresult tsr_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                CUmemAllocationHandleType handleType,
                                                unsigned long long flags) {
  tessera_shared_memory name;
  if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      (uintptr_t)handle > INT32_MAX ||
      !tsr_share_from_descriptor((int)(intptr_t)handle, &name) || name.purpose != TSR_SHARE_POOL ||
      name.kind > TESSERA_CHUNK_KIND_HOST || device_of(&name) < 0)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = verify(&name);
  if (result != CUDA_SUCCESS) return result;
  const bool host = name.kind == TESSERA_CHUNK_KIND_HOST;
  const int ordinal = host ? -1 : device_of(&name);
  const CUmemPoolProps props = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
      .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = {.type = host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                   .id = host ? 0 : ordinal}};
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_pool *pool = tsr_pool_new(&props, ordinal);
  if (pool) {
    pool->imported = true;
    pool->shared_tag = tag_of(&name);
    *pool_out = (CUmemoryPool)(uintptr_t)pool->handle;
  }
  pthread_mutex_unlock(&tsr_pool_lock);
  return pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Needs no current context: programs export pointers on threads of their own. */
CUresult tsr_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
  struct tsr_span span;
  if (!shareData_out || !tsr_memory_find(ptr, &span) || span.address != ptr)
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_pool *pool = tsr_object_find(TSR_POOL, span.sort.pool);
  if (!is_exportable(pool)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = name_pool(span.context, pool, false);
  if (result != CUDA_SUCCESS) return result;
  tessera_shared_memory name;
  result = tsr_share_offer(span.context, span.address, span.bytes, span.kind, TSR_SHARE_POINTER,
                           pool->shared_tag, &name);
  if (result == CUDA_SUCCESS) memcpy(shareData_out, &name, sizeof name);
  return result;
}

/* Needs no current context: cuda.core imports pointers in processes that have none yet. */
CUresult tsr_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                    CUmemPoolPtrExportData *shareData) {
  struct tsr_pool *found = find(pool);
  if (!ptr_out || !shareData || !found || !found->imported) return CUDA_ERROR_INVALID_VALUE;
  tessera_shared_memory name;
  memcpy(&name, shareData, sizeof name);
  if (name.purpose != TSR_SHARE_POINTER || name.tag != found->shared_tag)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult why;
  struct tsr_context *context = NULL;
  CUresult result = tsr_pool_context(found, tsr_context_current_any(&why), &context);
  if (result != CUDA_SUCCESS) return result;
  uint64_t address;
  result = tsr_opened_add(context, &name, found->handle, &address);
  if (result == CUDA_SUCCESS) *ptr_out = address;
  return result;
}
