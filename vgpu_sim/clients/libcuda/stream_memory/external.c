/* Memory that other interfaces export is none that a simulated GPU has: only descriptors of
 * cuMemExportToShareableHandle are imported. Such a descriptor's memory is that of
 * cuMemImportFromShareableHandle, and a buffer of it is mapped at reserved addresses. */
#include "stream_memory/external.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "base/device.h"
#include "base/objects.h"
#include "base/refuse.h"
#include "contexts/context.h"
#include "memory/physical.h"

/* A mapped buffer: a program frees it by its address. */
struct buffer {
  struct buffer *next;
  CUdeviceptr address, start;
  size_t bytes; /* of the reserved addresses from `start` on */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; a leaf */
static struct buffer *buffers;
static _Atomic size_t count;

CUresult tsr_cuImportExternalMemory(CUexternalMemory *extMem_out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc) {
  TSR_CURRENT(context);
  if (!extMem_out || !memHandleDesc) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC given = *memHandleDesc;
  if (given.type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
      given.type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF ||
      given.flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED)
    return CUDA_ERROR_INVALID_VALUE;
  if (given.type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
    TSR_REFUSE("cuImportExternalMemory of other handles than POSIX descriptors");
  tessera_shared_memory name;
  if (!tsr_physical_name(given.handle.fd, &name) || given.size != name.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  struct tsr_external *made = tsr_object_new(TSR_EXTERNAL);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemGenericAllocationHandle physical;
  const CUresult result = tsr_physical_import(context, &name, &physical);
  if (result != CUDA_SUCCESS) {
    tsr_object_free(TSR_EXTERNAL, made);
    return result;
  }
  made->physical = physical;
  made->bytes = name.bytes;
  *extMem_out = (CUexternalMemory)(uintptr_t)tsr_object_publish(TSR_EXTERNAL, made);
  close(given.handle.fd); /* the driver owns it from now on */
  return CUDA_SUCCESS;
}

/* Map all of the memory for the current context's device. */
static CUresult map(const struct tsr_context *context, const struct tsr_external *memory,
                    CUdeviceptr *start) {
  const CUmemAccessDesc access = {
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(context->device - tsr_devices)},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUresult result = tsr_cuMemAddressReserve(start, memory->bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  result = tsr_cuMemMap(*start, memory->bytes, 0, memory->physical, 0);
  if (result == CUDA_SUCCESS) {
    result = tsr_cuMemSetAccess(*start, memory->bytes, &access, 1);
    if (result != CUDA_SUCCESS) tsr_cuMemUnmap(*start, memory->bytes);
  }
  if (result != CUDA_SUCCESS) tsr_cuMemAddressFree(*start, memory->bytes);
  return result;
}

CUresult tsr_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc) {
  TSR_CURRENT(context);
  if (!devPtr || !bufferDesc) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_EXTERNAL_MEMORY_BUFFER_DESC wanted = *bufferDesc;
  const struct tsr_external *memory = TSR_FIND(tsr_external, TSR_EXTERNAL, extMem);
  if (!memory) return CUDA_ERROR_INVALID_HANDLE;
  if (wanted.flags || !wanted.size || wanted.offset > memory->bytes ||
      wanted.size > memory->bytes - wanted.offset)
    return CUDA_ERROR_INVALID_VALUE;
  struct buffer *made = malloc(sizeof *made);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->bytes = memory->bytes;
  const CUresult result = map(context, memory, &made->start);
  if (result != CUDA_SUCCESS) {
    free(made);
    return result;
  }
  *devPtr = made->address = made->start + wanted.offset;
  pthread_mutex_lock(&lock);
  made->next = buffers;
  buffers = made;
  atomic_fetch_add(&count, 1);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

static struct buffer *take(CUdeviceptr address) {
  pthread_mutex_lock(&lock);
  struct buffer **place = &buffers;
  while (*place && (*place)->address != address) place = &(*place)->next;
  struct buffer *taken = *place;
  if (taken) {
    *place = taken->next;
    atomic_fetch_sub(&count, 1);
  }
  pthread_mutex_unlock(&lock);
  return taken;
}

bool tsr_external_free(CUdeviceptr address, CUresult *result) {
  if (!atomic_load_explicit(&count, memory_order_relaxed)) return false;
  struct buffer *freed = take(address);
  if (!freed) return false;
  *result = tsr_cuMemUnmap(freed->start, freed->bytes);
  const CUresult vacated = tsr_cuMemAddressFree(freed->start, freed->bytes);
  if (*result == CUDA_SUCCESS) *result = vacated;
  free(freed);
  return true;
}

/* Buffers stay until the program frees them. */
CUresult tsr_cuDestroyExternalMemory(CUexternalMemory extMem) {
  struct tsr_external *memory = TSR_FIND(tsr_external, TSR_EXTERNAL, extMem);
  if (!memory || !tsr_object_retire(TSR_EXTERNAL, (uint64_t)(uintptr_t)extMem))
    return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = tsr_cuMemRelease(memory->physical);
  tsr_object_free(TSR_EXTERNAL, memory);
  return result;
}
