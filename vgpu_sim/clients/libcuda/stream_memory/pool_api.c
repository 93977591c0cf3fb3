/* cuMemAllocAsync and the current pools of devices. */
#include "api.h"
#include "base/device.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "exchange/wait.h"
#include "memory/graph_memory.h"
#include "memory/pool.h"
#include "nodes/capture.h"
#include "sharing/opened.h"
#include "contexts/pool_context.h"
#include "streams/stream.h"

static struct tsr_pool *find(CUmemoryPool handle) { return TSR_FIND(tsr_pool, TSR_POOL, handle); }

static int ordinal_of(const struct tsr_context *context) {
  return (int)(context->device - tsr_devices);
}

typedef struct tsr_pool *chooser(int ordinal, CUmemAllocationType type);

static struct tsr_pool *choose(chooser *choose_pool, int ordinal, CUmemAllocationType type) {
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_pool *pool = choose_pool(ordinal, type);
  pthread_mutex_unlock(&tsr_pool_lock);
  return pool;
}

/* In a stream that captures, an allocation belongs to the graph and not to the pool. */
static CUresult capture_allocation(CUdeviceptr *dptr, size_t bytes, const struct tsr_pool *pool,
                                   struct tsr_context *context, uint32_t stream) {
  const CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.poolProps = pool->props, .bytesize = bytes};
  if (pool->device < 0 && pool->props.allocType != CU_MEM_ALLOCATION_TYPE_MANAGED)
    TSR_REFUSE("a graph's allocation that is in host memory");
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                    .context = tsr_object_handle(TSR_CONTEXT, context)};
  CUresult result = tsr_graph_memory_new(context, &parameters, &operation.memory);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t address = operation.memory->address;
  result = tsr_capture_add(context, stream, &operation);
  if (result == CUDA_SUCCESS) *dptr = address;
  return result;
}

static CUresult capture_free(CUdeviceptr dptr, struct tsr_context *context, uint32_t stream) {
  if (!tsr_graph_memory_is(dptr)) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_operation operation = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE,
                                    .context = tsr_object_handle(TSR_CONTEXT, context),
                                    .freed = dptr};
  return tsr_capture_add(context, stream, &operation);
}

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, struct tsr_pool *pool,
                         struct tsr_context *context, uint32_t stream) {
  uint64_t address = 0;
  if (!pool) return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes == 0) { /* as in CUDA: no memory, and no error */
    *dptr = 0;
    return CUDA_SUCCESS;
  }
  if (tsr_captures(context, stream)) return capture_allocation(dptr, bytes, pool, context, stream);
  const CUresult result = tsr_pool_allocate(pool, context, stream, bytes, &address);
  if (result == CUDA_SUCCESS) *dptr = address;
  return result;
}

CUresult tsr_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
  if (dptr) *dptr = 0; /* as do allocations that do not wait for a stream */
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!dptr) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_pool *pool =
      choose(tsr_pool_current, ordinal_of(context), CU_MEM_ALLOCATION_TYPE_PINNED);
  return allocate(dptr, bytesize, pool, context, stream);
}

/* Allocate memory of another device. The streams of two devices are on different timelines, so that
 * the memory is ready when this returns. */
static CUresult allocate_abroad(CUdeviceptr *dptr, size_t bytes, struct tsr_pool *pool) {
  struct tsr_context *context;
  CUresult result = tsr_pool_context(pool, NULL, &context);
  if (result == CUDA_SUCCESS) result = allocate(dptr, bytes, pool, context, TSR_LEGACY_STREAM);
  if (result != CUDA_SUCCESS || bytes == 0) return result;
  result = tsr_wait_stream_open(context, TSR_LEGACY_STREAM);
  if (result != CUDA_SUCCESS) tsr_pool_free(*dptr, NULL, TSR_LEGACY_STREAM);
  return result;
}

CUresult tsr_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                     CUstream hStream) {
  if (dptr) *dptr = 0;
  struct tsr_context *context;
  uint32_t stream;
  const CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_pool *found = find(pool);
  if (!dptr || !found) return CUDA_ERROR_INVALID_VALUE;
  if (found->device >= 0 && found->device != ordinal_of(context)) {
    if (tsr_captures(context, stream))
      TSR_REFUSE("a capture of cuMemAllocFromPoolAsync from a pool of another device");
    return allocate_abroad(dptr, bytesize, found);
  }
  return allocate(dptr, bytesize, found, context, stream);
}

/* Memory that belongs to no pool is freed at once, after the stream's work is done. Memory of a
 * graph stays reserved for the next launch. */
CUresult tsr_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  struct tsr_context *context;
  uint32_t stream;
  CUresult result = tsr_stream_locate(hStream, &context, &stream);
  if (result != CUDA_SUCCESS) return result;
  if (!dptr) return CUDA_SUCCESS; /* an allocation of 0 bytes */
  if (tsr_captures(context, stream)) return capture_free(dptr, context, stream);
  if (tsr_graph_memory_is(dptr)) return tsr_graph_memory_free(dptr);
  struct tsr_span span;
  if (!tsr_memory_find(dptr, &span) || span.address != dptr) return CUDA_ERROR_INVALID_VALUE;
  if (span.sort.use == TSR_USE_OPENED) {
    result = tsr_wait_stream_open(context, stream);
    return result == CUDA_SUCCESS ? tsr_opened_close(dptr, span.sort.pool) : result;
  }
  if (span.sort.pool) return tsr_pool_free(dptr, context, stream);
  result = tsr_wait_stream_open(context, stream);
  return result == CUDA_SUCCESS ? tsr_memory_free(dptr, TSR_USE_DEVICE) : result;
}

static CUresult report(CUmemoryPool *out, const struct tsr_pool *pool) {
  if (!pool) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUmemoryPool)(uintptr_t)pool->handle;
  return CUDA_SUCCESS;
}

static CUresult pool_of_device(CUmemoryPool *out, CUdevice dev, chooser *choose_pool) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  return report(out, choose(choose_pool, dev, CU_MEM_ALLOCATION_TYPE_PINNED));
}

CUresult tsr_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  return pool_of_device(pool_out, dev, tsr_pool_default);
}

CUresult tsr_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  return pool_of_device(pool, dev, tsr_pool_current);
}

static CUresult make_current(CUmemoryPool handle, int ordinal, CUmemAllocationType type) {
  struct tsr_pool *pool = find(handle);
  if (!pool || pool->device != ordinal || pool->props.allocType != type)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_pool_lock);
  tsr_pool_make_current(pool);
  pthread_mutex_unlock(&tsr_pool_lock);
  return CUDA_SUCCESS;
}

CUresult tsr_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  if (!tsr_device(dev)) return CUDA_ERROR_INVALID_DEVICE;
  return make_current(pool, dev, CU_MEM_ALLOCATION_TYPE_PINNED);
}

/* Convert a location to the ordinal of its pools: a device's, or -1 for the host. */
static CUresult ordinal_at(const CUmemLocation *location, CUmemAllocationType type, int *ordinal) {
  const bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (!location || (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED))
    return CUDA_ERROR_INVALID_VALUE;
  *ordinal = -1;
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *ordinal = location->id;
      return tsr_device(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location->id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_INVALID: /* managed memory that prefers no place */
      return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult pool_at(CUmemoryPool *out, const CUmemLocation *location, CUmemAllocationType type,
                        chooser *choose_pool) {
  int ordinal;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = ordinal_at(location, type, &ordinal);
  return result == CUDA_SUCCESS ? report(out, choose(choose_pool, ordinal, type)) : result;
}

CUresult tsr_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                    CUmemAllocationType type) {
  return pool_at(pool_out, location, type, tsr_pool_default);
}

CUresult tsr_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                             CUmemAllocationType type) {
  return pool_at(pool, location, type, tsr_pool_current);
}

CUresult tsr_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                             CUmemoryPool pool) {
  int ordinal;
  const CUresult result = ordinal_at(location, type, &ordinal);
  return result == CUDA_SUCCESS ? make_current(pool, ordinal, type) : result;
}

CUresult tsr_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  if (!pool || !poolProps) return CUDA_ERROR_INVALID_VALUE;
  const CUmemPoolProps props = *poolProps;
  int ordinal;
  const CUresult result = ordinal_at(&props.location, props.allocType, &ordinal);
  if (result != CUDA_SUCCESS) return result;
  const bool managed = props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (props.handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      (props.handleTypes && managed))
    TSR_REFUSE("cuMemPoolCreate with handles other than POSIX descriptors, or of managed memory");
  if (props.usage) TSR_REFUSE("cuMemPoolCreate with a usage, such as hardware decompression");
  pthread_mutex_lock(&tsr_pool_lock);
  struct tsr_pool *made = tsr_pool_new(&props, ordinal);
  pthread_mutex_unlock(&tsr_pool_lock);
  return report(pool, made);
}

/* The pool ends once its last allocation is freed. If it is the current one, the default pool is
 * from now on. */
CUresult tsr_cuMemPoolDestroy(CUmemoryPool pool) {
  struct tsr_pool *found = find(pool);
  if (!found || found->is_default || !tsr_object_retire(TSR_POOL, (uint64_t)(uintptr_t)pool))
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_pool_lock);
  found->is_current = false;
  pthread_mutex_unlock(&tsr_pool_lock);
  tsr_pool_release(found, NULL, 0);
  pthread_mutex_lock(&tsr_pool_lock);
  found->destroyed = true;
  tsr_pool_finish(found);
  pthread_mutex_unlock(&tsr_pool_lock);
  return CUDA_SUCCESS;
}
