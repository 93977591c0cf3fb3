/* Queries of pointer attributes. */
#include <string.h>

#include "api.h"
#include "contexts/context.h"
#include "base/aperture.h"
#include "base/device.h"
#include "base/sync_memops.h"
#include "memory/memory.h"
#include "modules/module.h"
#include "registered/registered.h"

static bool find(uint64_t pointer, struct tsr_span *span) {
  if (tsr_registered_find(pointer, span)) return true;
  return (tsr_memory_find(pointer, span) && span->sort.use != TSR_USE_REGISTERED &&
          span->sort.use != TSR_USE_ARRAY) ||
         tsr_variable_find(pointer, span);
}

/* Find pinned, managed or registered memory by the host's address. */
static bool find_host(const void *p, struct tsr_span *span) {
  return find((uint64_t)(uintptr_t)p, span) && span->kind == TESSERA_CHUNK_KIND_HOST;
}

/* Return the host's address of pinned, managed or registered memory. */
static uint64_t host_address(const struct tsr_span *span) {
  return (uint64_t)(uintptr_t)span->alias;
}

CUresult tsr_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
  if (pbase) *pbase = 0;
  if (psize) *psize = 0;
  TSR_CURRENT(context);
  struct tsr_span span;
  if (!find(dptr, &span)) return CUDA_ERROR_NOT_FOUND;
  if (pbase) *pbase = span.address;
  if (psize) *psize = span.bytes;
  return CUDA_SUCCESS;
}

/* Registered memory has two addresses, all other memory one. */
CUresult tsr_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags) {
  TSR_CURRENT(context);
  struct tsr_span span;
  if (!pdptr || Flags || !find_host(p, &span)) return CUDA_ERROR_INVALID_VALUE;
  *pdptr = span.address + ((uint64_t)(uintptr_t)p - host_address(&span));
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemHostGetFlags(unsigned int *pFlags, void *p) {
  TSR_CURRENT(context);
  struct tsr_span span;
  if (!pFlags || !find_host(p, &span)) return CUDA_ERROR_INVALID_VALUE;
  *pFlags = span.sort.host_flags;
  return CUDA_SUCCESS;
}

static uint64_t context_handle(const struct tsr_span *span) {
  return tsr_object_handle(TSR_CONTEXT, span->context);
}

/* Return the types of handles with which a pool's memory can be exported. */
static uint64_t handle_types(const struct tsr_span *span) {
  const struct tsr_pool *pool = tsr_object_find(TSR_POOL, span->sort.pool);
  return pool && !pool->imported ? (uint64_t)pool->props.handleTypes : 0;
}

/* Write one attribute, in the attribute's size: for flags that of an int, as NVIDIA's driver does. */
static CUresult answer(void *data, CUpointer_attribute attribute, uint64_t pointer,
                       const struct tsr_span *span) {
#define PUT(type, value)                     \
  do {                                       \
    const type put = (type)(value);          \
    memcpy(data, &put, sizeof put);          \
    return CUDA_SUCCESS;                     \
  } while (0)
  const bool host = span->kind == TESSERA_CHUNK_KIND_HOST;
  const bool managed = span->sort.use == TSR_USE_MANAGED;
  const bool by_host = host && !tsr_aperture_holds(pointer);
  const uint64_t offset = pointer - (by_host ? host_address(span) : span->address);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      PUT(uint64_t, context_handle(span));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      PUT(unsigned, host && !managed ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      PUT(uint64_t, span->address + offset);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host) return CUDA_ERROR_INVALID_VALUE;
      PUT(uint64_t, host_address(span) + offset);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      PUT(int, tsr_is_ipc_capable(span));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      PUT(int, tsr_sync_memops_has(span->id));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      PUT(int, false);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      PUT(int, managed);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      PUT(unsigned, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      PUT(uint64_t, span->address);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      PUT(uint64_t, span->bytes);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      PUT(uint64_t, span->id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      PUT(int, span->context->device - tsr_devices);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      PUT(uint64_t, span->address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      PUT(uint64_t, span->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      PUT(int, true);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      PUT(uint64_t, handle_types(span));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      PUT(uint64_t, span->sort.pool);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
#undef PUT
}

CUresult tsr_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  struct tsr_span span;
  if (!data || !find(ptr, &span)) return CUDA_ERROR_INVALID_VALUE;
  return answer(data, attribute, ptr, &span);
}

/* Return the size of an attribute that answer() writes; 0: it writes none. Used for unknown
 * pointers. */
static size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return sizeof(int);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return sizeof(int);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return sizeof(uint64_t);
    default:
      return 0;
  }
}

/* Unlike cuPointerGetAttribute this succeeds for any pointer. For an unknown pointer the
 * attributes become zero, and the device -2. */
CUresult tsr_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                    void **data, CUdeviceptr ptr) {
  if (!attributes || !data || numAttributes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < numAttributes; i++)
    if (!data[i] || attribute_bytes(attributes[i]) == 0) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_span span;
  const bool known = find(ptr, &span);
  for (unsigned i = 0; i < numAttributes; i++) {
    memset(data[i], 0, attribute_bytes(attributes[i]));
    if (known)
      answer(data[i], attributes[i], ptr, &span);
    else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      memcpy(data[i], &(int){-2}, sizeof(int));
  }
  return CUDA_SUCCESS;
}

CUresult tsr_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                   CUdeviceptr ptr) {
  TSR_CURRENT(context);
  struct tsr_span span;
  if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !find(ptr, &span) ||
      span.kind != TESSERA_CHUNK_KIND_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned wanted;
  memcpy(&wanted, value, sizeof wanted);
  if (wanted) return tsr_sync_memops_set(span.id) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  tsr_sync_memops_clear(span.id, span.id);
  return CUDA_SUCCESS;
}
