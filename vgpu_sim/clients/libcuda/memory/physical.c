/* Memory of cuMemCreate: allocated without an address that programs use. It belongs to a context,
 * because each context has its own worker. */
#include "api.h"
#include "base/aperture.h"
#include "base/device.h"
#include "base/hooks.h"
#include "base/refuse.h"
#include "exchange/share.h"
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

CUresult tsr_physical_check(const CUmemAllocationProp *prop) {
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
  const CUresult result = tsr_physical_check(prop);
  if (result == CUDA_SUCCESS) *granularity = TESSERA_CHUNK_ALIGN_BYTES;
  return result;
}

/* Take a chunk from the allocations: programs do not use its address. */
static CUresult hide(struct tsr_physical *made) {
  const uint64_t address = tsr_aperture_base + made->offset;
  struct tsr_span span;
  if (!tsr_memory_find(address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  made->alias = span.alias;
  tsr_memory_resize(address, 0);
  return CUDA_SUCCESS;
}

static CUresult make(struct tsr_context *context, struct tsr_physical *made) {
  uint64_t address;
  const struct tsr_sort sort = {.use = TSR_USE_PHYSICAL};
  const CUresult result = tsr_memory_allocate(context, sort, made->bytes, &address);
  if (result != CUDA_SUCCESS) return result;
  made->offset = address - tsr_aperture_base;
  return hide(made);
}

CUresult tsr_physical_create(struct tsr_context *context, const CUmemAllocationProp *props,
                             uint64_t bytes, CUmemGenericAllocationHandle *handle) {
  struct tsr_physical *made = tsr_object_new(TSR_PHYSICAL);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->props = *props;
  made->bytes = bytes;
  made->handles = 1;
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_physical **place = free_place();
  const CUresult result = place ? make(context, made) : CUDA_ERROR_OUT_OF_MEMORY;
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

bool tsr_physical_lives(const struct tsr_context *context) {
  bool lives = false;
  pthread_mutex_lock(&tsr_view_lock);
  for (size_t i = 0; i < sizeof all / sizeof *all && !lives; i++)
    lives = all[i] && all[i]->context == context;
  pthread_mutex_unlock(&tsr_view_lock);
  return lives;
}

CUresult tsr_cuMemRelease(CUmemGenericAllocationHandle handle) {
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_physical *found = find(handle);
  struct tsr_context *const context = found ? found->context : NULL;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (found) {
    result = CUDA_SUCCESS;
    if (--found->handles == 0) {
      tsr_object_retire(TSR_PHYSICAL, handle);
      result = tsr_physical_finish(found);
    }
  }
  pthread_mutex_unlock(&tsr_view_lock);
  if (context) tsr_hooks_run(TSR_ON_PHYSICAL_FREED, context);
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

CUresult tsr_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  if (!shareableHandle || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  tessera_shared_memory name;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_view_lock);
  const struct tsr_physical *found = find(handle);
  const bool imported = found && found->imported;
  if (found && !imported && found->context &&
      found->props.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    result = tsr_share_offer(found->context, tsr_aperture_base + found->offset, found->bytes,
                             TESSERA_CHUNK_KIND_DEVICE, TSR_SHARE_PHYSICAL, 0, &name);
  pthread_mutex_unlock(&tsr_view_lock);
  if (imported) TSR_REFUSE("cuMemExportToShareableHandle of imported memory");
  if (result != CUDA_SUCCESS) return result;
  const int fd = tsr_share_to_descriptor(&name);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)shareableHandle = fd;
  return CUDA_SUCCESS;
}

/* Return the memory that this process has exported from an address. */
static struct tsr_physical *find_at(uint64_t address) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] && all[i]->context && tsr_aperture_base + all[i]->offset == address) return all[i];
  return NULL;
}

/* Open the memory of another context. */
static CUresult open_shared(struct tsr_context *context, const tessera_shared_memory *name,
                            struct tsr_physical *made) {
  made->context = context;
  made->imported = true;
  made->bytes = name->bytes;
  made->handles = 1;
  made->props = (CUmemAllocationProp){
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(context->device - tsr_devices)}};
  const struct tsr_chunk wanted = {.context = context,
                                   .kind = TESSERA_CHUNK_KIND_DEVICE,
                                   .bytes = name->bytes,
                                   .requested_bytes = name->bytes,
                                   .shared = name,
                                   .sort = {.use = TSR_USE_PHYSICAL}};
  const CUresult result = tsr_chunk_create(&wanted, &made->offset);
  return result == CUDA_SUCCESS ? hide(made) : result;
}

static CUresult import(struct tsr_context *context, const tessera_shared_memory *name,
                       CUmemGenericAllocationHandle *handle) {
  uint64_t address;
  if (tsr_share_own(name, &address)) {
    struct tsr_physical *own = find_at(address);
    if (!own) return CUDA_ERROR_INVALID_VALUE;
    *handle = tsr_physical_retain(own);
    return CUDA_SUCCESS;
  }
  struct tsr_physical **place = free_place();
  struct tsr_physical *made = place ? tsr_object_new(TSR_PHYSICAL) : NULL;
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = open_shared(context, name, made);
  if (result == CUDA_SUCCESS) {
    *place = made;
    *handle = made->handle = tsr_object_publish(TSR_PHYSICAL, made);
  } else {
    tsr_object_free(TSR_PHYSICAL, made);
  }
  return result;
}

bool tsr_physical_name(int fd, tessera_shared_memory *name) {
  return tsr_share_from_descriptor(fd, name) && name->purpose == TSR_SHARE_PHYSICAL &&
         !name->offset && name->kind == TESSERA_CHUNK_KIND_DEVICE &&
         name->bytes == (uint64_t)name->chunk_units * TESSERA_CHUNK_ALIGN_BYTES;
}

CUresult tsr_physical_import(struct tsr_context *context, const tessera_shared_memory *name,
                             CUmemGenericAllocationHandle *handle) {
  pthread_mutex_lock(&tsr_view_lock);
  const CUresult result = import(context, name, handle);
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}
