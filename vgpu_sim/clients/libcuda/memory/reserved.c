/* Reserved addresses, and mapping of memory in them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "api.h"
#include "base/aperture.h"
#include "base/device.h"
#include "base/hooks.h"
#include "base/refuse.h"
#include "exchange/wait.h"
#include "memory/physical.h"

#define UNIT TESSERA_CHUNK_ALIGN_BYTES

CUresult tsr_views_reserve(const struct tsr_device *device, uint64_t bytes, uint64_t alignment,
                           uint64_t wanted, uint64_t *address) {
  struct tsr_views *views = calloc(1, sizeof *views);
  if (!views) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t place = tsr_aperture_holds(wanted) ? wanted - tsr_aperture_base : 0;
  pthread_mutex_lock(&tsr_view_lock);
  views->bytes = bytes;
  const CUresult result =
      tsr_chunk_reserve(device, bytes, alignment, place, views, &views->offset);
  if (result == CUDA_SUCCESS) {
    views->next = tsr_reserved;
    tsr_reserved = views;
    *address = tsr_aperture_base + views->offset;
  } else {
    free(views);
  }
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}

static void unreserve(struct tsr_views *views) {
  struct tsr_views **link = &tsr_reserved;
  while (*link != views) link = &(*link)->next;
  *link = views->next;
  pthread_mutex_lock(&tsr_memory_lock);
  struct tsr_chunk *chunk = tsr_chunk_at(tsr_aperture_base + views->offset);
  tsr_chunk_detach(chunk);
  pthread_mutex_unlock(&tsr_memory_lock);
  munmap(chunk->alias, chunk->bytes);
  free(chunk);
  free(views->list);
  free(views);
}

CUresult tsr_cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_views *views = tsr_views_at(ptr);
  const bool whole = views && ptr - tsr_aperture_base == views->offset && size == views->bytes &&
                     views->count == 0;
  if (whole) unreserve(views);
  pthread_mutex_unlock(&tsr_view_lock);
  return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Find the reserved range that contains all of [ptr, ptr + size), which begins at `*start` in it. */
static struct tsr_views *range_at(CUdeviceptr ptr, size_t size, uint64_t *start) {
  struct tsr_views *views = tsr_views_at(ptr);
  if (!views || size == 0 || ptr % UNIT || size % UNIT) return NULL;
  *start = ptr - tsr_aperture_base - views->offset;
  return size <= views->bytes - *start ? views : NULL;
}

static CUresult map(CUdeviceptr ptr, size_t size, CUmemGenericAllocationHandle handle) {
  uint64_t start;
  struct tsr_views *views = range_at(ptr, size, &start);
  struct tsr_physical *physical = TSR_FIND(tsr_physical, TSR_PHYSICAL, handle);
  if (!views || !physical || size > physical->bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!physical->context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (views->offset - physical->context->device->window >= TESSERA_GPU_WINDOW_BYTES)
    TSR_REFUSE("cuMemMap of another device's memory than that for which addresses were reserved");
  const struct tsr_view view = {.start = start, .bytes = size, .physical = physical};
  if (!tsr_views_add(views, view)) return CUDA_ERROR_INVALID_VALUE;
  physical->mappings++;
  return CUDA_SUCCESS;
}

CUresult tsr_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (offset || flags) return CUDA_ERROR_INVALID_VALUE; /* as in CUDA */
  pthread_mutex_lock(&tsr_view_lock);
  const CUresult result = map(ptr, size, handle);
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}

/* Find the views that exactly make up a range without gaps: `*count` from `*first` on. */
static struct tsr_views *views_in(CUdeviceptr ptr, size_t size, size_t *first, size_t *count) {
  uint64_t start;
  struct tsr_views *views = range_at(ptr, size, &start);
  if (!views) return NULL;
  *first = tsr_views_first(views, start);
  *count = 0;
  for (size_t i = *first; size > 0; i++, ++*count) {
    if (i == views->count || views->list[i].start != start || views->list[i].bytes > size)
      return NULL;
    start += views->list[i].bytes;
    size -= views->list[i].bytes;
  }
  return views;
}

/* Work in progress may still use the memory. */
static CUresult finish_work(const struct tsr_views *views, size_t first, size_t count) {
  CUresult result = CUDA_SUCCESS;
  struct tsr_context *last = NULL;
  for (size_t i = first; i < first + count && result == CUDA_SUCCESS; i++) {
    struct tsr_context *context = views->list[i].physical->context;
    if (context && context != last) result = tsr_wait_all(context);
    last = context;
  }
  return result;
}

CUresult tsr_cuMemUnmap(CUdeviceptr ptr, size_t size) {
  size_t first, count;
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_views *views = views_in(ptr, size, &first, &count);
  CUresult result = views ? finish_work(views, first, count) : CUDA_ERROR_INVALID_VALUE;
  struct tsr_context *context = NULL;
  for (; result == CUDA_SUCCESS && count > 0; count--) {
    struct tsr_physical *physical = views->list[first].physical;
    if (physical->context) context = physical->context;
    result = tsr_view_shut(views, &views->list[first]);
    tsr_views_remove(views, first);
    physical->mappings--;
    const CUresult freed = tsr_physical_finish(physical);
    if (result == CUDA_SUCCESS) result = freed;
  }
  pthread_mutex_unlock(&tsr_view_lock);
  if (context) tsr_hooks_run(TSR_ON_PHYSICAL_FREED, context);
  return result;
}

static CUresult set_access(struct tsr_views *views, size_t first, size_t count,
                           const CUmemAccessDesc *wanted) {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = first; i < first + count; i++) {
    const struct tsr_physical *physical = views->list[i].physical;
    if (wanted->location.id != physical->props.location.id) {
      if (wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) continue;
      TSR_REFUSE("cuMemSetAccess of a device to another device's memory");
    }
  }
  const bool open = wanted->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!open) result = finish_work(views, first, count);
  for (size_t i = first; i < first + count && result == CUDA_SUCCESS; i++)
    result = open ? tsr_view_open(views, &views->list[i]) : tsr_view_shut(views, &views->list[i]);
  return result;
}

CUresult tsr_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                            size_t count) {
  if (!desc || count == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t first, views_count;
  pthread_mutex_lock(&tsr_view_lock);
  struct tsr_views *views = views_in(ptr, size, &first, &views_count);
  CUresult result = views ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
    const CUmemAccessDesc one = desc[i];
    if (one.location.type != CU_MEM_LOCATION_TYPE_DEVICE || !tsr_device(one.location.id)) {
      result = CUDA_ERROR_INVALID_VALUE;
    } else if (one.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
      pthread_mutex_unlock(&tsr_view_lock);
      TSR_REFUSE("cuMemSetAccess for reading only");
    } else if (one.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
               one.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      result = CUDA_ERROR_INVALID_VALUE;
    } else {
      result = set_access(views, first, views_count, &one);
    }
  }
  pthread_mutex_unlock(&tsr_view_lock);
  return result;
}

/* Return the view that contains an address, or NULL. */
static const struct tsr_view *view_at(uint64_t address) {
  const struct tsr_views *views = tsr_views_at(address);
  if (!views) return NULL;
  const uint64_t start = address - tsr_aperture_base - views->offset;
  const size_t at = tsr_views_first(views, start);
  return at < views->count && views->list[at].start <= start ? &views->list[at] : NULL;
}

CUresult tsr_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                            CUdeviceptr ptr) {
  if (!flags || !location) return CUDA_ERROR_INVALID_VALUE;
  const CUmemLocation place = *location;
  pthread_mutex_lock(&tsr_view_lock);
  const struct tsr_view *view = view_at(ptr);
  const bool known = view && place.type == CU_MEM_LOCATION_TYPE_DEVICE && tsr_device(place.id);
  if (known)
    *flags = view->accessible && view->physical->props.location.id == place.id
                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  pthread_mutex_unlock(&tsr_view_lock);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&tsr_view_lock);
  const struct tsr_view *view = view_at((uint64_t)(uintptr_t)addr);
  if (view) *handle = tsr_physical_retain(view->physical);
  pthread_mutex_unlock(&tsr_view_lock);
  return view ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void tsr_views_drop(struct tsr_context *context) {
  pthread_mutex_lock(&tsr_view_lock);
  for (struct tsr_views *views = tsr_reserved; views; views = views->next)
    for (size_t i = 0; i < views->count; i++)
      if (views->list[i].physical->context == context) {
        views->list[i].physical->context = NULL;
        tsr_view_shut(views, &views->list[i]);
        views->list[i].physical->context = context;
      }
  tsr_physical_drop(context);
  pthread_mutex_unlock(&tsr_view_lock);
}
