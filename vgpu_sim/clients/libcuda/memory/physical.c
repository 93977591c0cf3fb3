/* Memory of cuMemCreate: allocated without an address that programs use. It belongs to the context
 * that was current, because each context has its own worker. */
#include "api.h"
#include "base/aperture.h"
#include "base/device.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "memory/memory.h"
#include "memory/physical.h"

static struct tsr_physical *find(CUmemGenericAllocationHandle handle) {
  return TSR_FIND(tsr_physical, TSR_PHYSICAL, handle);
}

/* All memory of cuMemCreate that has handles or mappings. */
static struct tsr_physical *all[4096];

static struct tsr_physical **free_place(void) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!all[i]) return &all[i];
  return NULL;
}

static CUresult check(const CUmemAllocationProp *prop) {
  if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    TSR_REFUSE("cuMemCreate of host memory");
  if (!tsr_device(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (prop->allocFlags.compressionType || prop->allocFlags.usage)
    TSR_REFUSE("cuMemCreate of compressible memory, or with a usage");
  if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    TSR_REFUSE("cuMemCreate of memory with handles other than POSIX descriptors");
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option) {
  if (!granularity || !prop || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = check(prop);
  if (result == CUDA_SUCCESS) *granularity = TESSERA_CHUNK_ALIGN_BYTES;
  return result;
}

static CUresult make(struct tsr_context *context, struct tsr_physical *made) {
  uint64_t address;
  const struct tsr_sort sort = {.use = TSR_USE_PHYSICAL};
  const CUresult result = tsr_memory_allocate(context, sort, made->bytes, &address);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_span span;
  if (!tsr_memory_find(address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  made->alias = span.alias;
  made->offset = address - tsr_aperture_base;
  tsr_memory_resize(address, 0); /* programs do not use this address */
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                         const CUmemAllocationProp *prop, unsigned long long flags) {
  TSR_CURRENT(context);
  if (!handle || !prop || flags || size == 0 || size % TESSERA_CHUNK_ALIGN_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  const CUmemAllocationProp props = *prop;
  CUresult result = check(&props);
  if (result != CUDA_SUCCESS) return result;
  if (tsr_device(props.location.id) != context->device)
    TSR_REFUSE("cuMemCreate on another device than the current context's");
  struct tsr_physical *made = tsr_object_new(TSR_PHYSICAL);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->props = props;
  made->bytes = size;
  made->handles = 1;
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_physical **place = free_place();
  result = place ? make(context, made) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) {
    *place = made;
    *handle = made->handle = tsr_object_publish(TSR_PHYSICAL, made);
  } else {
    tsr_object_free(TSR_PHYSICAL, made);
  }
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}

CUresult tsr_physical_finish(struct tsr_physical *physical) {
  if (physical->handles || physical->mappings) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  if (physical->context) {
    const uint64_t address = tsr_aperture_base + physical->offset;
    tsr_memory_resize(address, physical->bytes);
    result = tsr_memory_release(address, TSR_USE_PHYSICAL);
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] == physical) all[i] = NULL;
  tsr_object_free(TSR_PHYSICAL, physical);
  return result;
}

void tsr_physical_drop(const struct tsr_context *context) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && all[i]->context == context) all[i]->context = NULL;
}

CUresult tsr_cuMemRelease(CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_physical *found = find(handle);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (found) {
    result = CUDA_SUCCESS;
    if (--found->handles == 0) {
      tsr_object_retire(TSR_PHYSICAL, handle);
      result = tsr_physical_finish(found);
    }
  }
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}

CUmemGenericAllocationHandle tsr_physical_retain(struct tsr_physical *physical) {
  if (physical->handles++ == 0) physical->handle = tsr_object_publish(TSR_PHYSICAL, physical);
  return physical->handle;
}

CUresult tsr_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle handle) {
  const struct tsr_physical *found = find(handle);
  if (!prop || !found) return CUDA_ERROR_INVALID_VALUE;
  *prop = found->props;
  return CUDA_SUCCESS;
}
