/* cuMipmappedArray...: arrays with levels of decreasing size, in one allocation. */
#include "api.h"
#include "arrays/array.h"
#include "base/hooks.h"
#include "contexts/context.h"
#include "exchange/unsafe.h"
#include "memory/memory.h"

enum { LEVEL_ALIGN_BYTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_mipmap *all;

static bool lives(const struct tsr_mipmap *mipmap) {
  return TSR_FIND(tsr_context, TSR_CONTEXT, mipmap->facts.context_handle) != NULL;
}

bool tsr_mipmap_read(CUmipmappedArray handle, struct tsr_mipmap_facts *facts) {
  pthread_mutex_lock(&lock);
  const struct tsr_mipmap *mipmap = TSR_FIND(tsr_mipmap, TSR_MIPMAP, handle);
  const bool found = mipmap && lives(mipmap);
  if (found) *facts = mipmap->facts;
  pthread_mutex_unlock(&lock);
  return found;
}

static uint64_t align(uint64_t bytes) {
  return (bytes + LEVEL_ALIGN_BYTES - 1) / LEVEL_ALIGN_BYTES * LEVEL_ALIGN_BYTES;
}

/* The program's description of an array with the size of a level. */
static CUDA_ARRAY3D_DESCRIPTOR descriptor_of(const CUDA_ARRAY3D_DESCRIPTOR *first,
                                             const struct tsr_layout *level) {
  CUDA_ARRAY3D_DESCRIPTOR made = *first;
  made.Width = level->width;
  if (first->Height) made.Height = level->height;
  if (level->kind == TSR_SHAPE_3D) made.Depth = level->depth;
  return made;
}

static void remove_levels(const struct tsr_mipmap_facts *facts) {
  struct tsr_array_facts level;
  for (unsigned i = 0; i < facts->levels; i++)
    if (facts->arrays[i]) tsr_array_remove(facts->arrays[i], true, &level);
}

/* Make the arrays of all levels, in the memory at facts->address. */
static CUresult add_levels(struct tsr_mipmap_facts *facts, const struct tsr_layout *first) {
  uint64_t address = facts->address;
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < facts->levels && result == CUDA_SUCCESS; i++) {
    const struct tsr_layout layout = tsr_layout_of_level(first, i);
    const struct tsr_array_facts level = {.context = facts->context,
                                          .context_handle = facts->context_handle,
                                          .descriptor = descriptor_of(&facts->descriptor, &layout),
                                          .layout = layout,
                                          .address = address,
                                          .level = true};
    result = tsr_array_add(&level, &facts->arrays[i]);
    address += align(layout.bytes);
  }
  if (result != CUDA_SUCCESS) remove_levels(facts);
  return result;
}

/* An entry of the list has the place that refers to it, so that it can leave in constant time. */
static void link_locked(struct tsr_mipmap *mipmap) {
  mipmap->next = all;
  mipmap->place = &all;
  if (all) all->place = &mipmap->next;
  all = mipmap;
}

static void unlink_locked(const struct tsr_mipmap *mipmap) {
  *mipmap->place = mipmap->next;
  if (mipmap->next) mipmap->next->place = mipmap->place;
}

/* Free the mipmapped arrays of contexts that have ended; their memory is gone. */
static void drop_mipmaps(struct tsr_context *context) {
  (void)context;
  pthread_mutex_lock(&lock);
  for (struct tsr_mipmap *mipmap = all, *next; mipmap; mipmap = next) {
    next = mipmap->next;
    if (lives(mipmap)) continue;
    unlink_locked(mipmap);
    tsr_object_retire(TSR_MIPMAP, tsr_object_handle(TSR_MIPMAP, mipmap));
    tsr_object_free(TSR_MIPMAP, mipmap);
  }
  pthread_mutex_unlock(&lock);
}

static CUresult publish(const struct tsr_mipmap_facts *facts, CUmipmappedArray *handle) {
  struct tsr_mipmap *mipmap = tsr_object_new(TSR_MIPMAP);
  if (!mipmap) return CUDA_ERROR_OUT_OF_MEMORY;
  mipmap->facts = *facts;
  tsr_hook_add(TSR_ON_CLOSE, drop_mipmaps);
  pthread_mutex_lock(&lock);
  link_locked(mipmap);
  *handle = (CUmipmappedArray)(uintptr_t)tsr_object_publish(TSR_MIPMAP, mipmap);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

static CUresult make(struct tsr_mipmap_facts *facts, const struct tsr_layout *first,
                     CUmipmappedArray *handle) {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < facts->levels; i++) bytes += align(tsr_layout_of_level(first, i).bytes);
  CUresult result = tsr_array_allocate(facts->context, bytes, &facts->address);
  if (result != CUDA_SUCCESS) return result;
  result = add_levels(facts, first);
  if (result == CUDA_SUCCESS) {
    result = publish(facts, handle);
    if (result != CUDA_SUCCESS) remove_levels(facts);
  }
  if (result != CUDA_SUCCESS) tsr_memory_release(facts->address, TSR_USE_ARRAY);
  return result;
}

CUresult tsr_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                    const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                    unsigned int numMipmapLevels) {
  TSR_CURRENT(context);
  CUresult result = tsr_capture_check_unsafe();
  if (result != CUDA_SUCCESS) return result;
  if (!pHandle || !pMipmappedArrayDesc) return CUDA_ERROR_INVALID_VALUE;
  struct tsr_mipmap_facts facts = {.context = context,
                                   .context_handle = tsr_object_handle(TSR_CONTEXT, context),
                                   .descriptor = *pMipmappedArrayDesc};
  struct tsr_layout first;
  result = tsr_layout_of(context->device, &facts.descriptor, true, &first);
  if (result != CUDA_SUCCESS) return result;
  const unsigned most = tsr_layout_levels(&first);
  facts.levels = numMipmapLevels == 0 ? 1 : numMipmapLevels < most ? numMipmapLevels : most;
  return make(&facts, &first, pHandle);
}

static bool take(CUmipmappedArray handle, struct tsr_mipmap_facts *facts) {
  pthread_mutex_lock(&lock);
  struct tsr_mipmap *mipmap = TSR_FIND(tsr_mipmap, TSR_MIPMAP, handle);
  const bool found =
      mipmap && lives(mipmap) && tsr_object_retire(TSR_MIPMAP, (uint64_t)(uintptr_t)handle);
  if (found) {
    *facts = mipmap->facts;
    unlink_locked(mipmap);
  }
  pthread_mutex_unlock(&lock);
  if (found) tsr_object_free(TSR_MIPMAP, mipmap);
  return found;
}

CUresult tsr_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  TSR_CURRENT(context);
  const CUresult unsafe = tsr_capture_check_unsafe();
  if (unsafe != CUDA_SUCCESS) return unsafe;
  struct tsr_mipmap_facts facts;
  if (!take(hMipmappedArray, &facts)) return CUDA_ERROR_INVALID_HANDLE;
  remove_levels(&facts);
  return tsr_memory_free(facts.address, TSR_USE_ARRAY);
}

CUresult tsr_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                      unsigned int level) {
  TSR_CURRENT(context);
  struct tsr_mipmap_facts facts;
  if (!pLevelArray) return CUDA_ERROR_INVALID_VALUE;
  if (!tsr_mipmap_read(hMipmappedArray, &facts)) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= facts.levels) return CUDA_ERROR_INVALID_VALUE;
  *pLevelArray = (CUarray)(uintptr_t)facts.arrays[level];
  return CUDA_SUCCESS;
}

/* As documented for mipmapped arrays that are neither sparse nor mapped later; there are no others. */
static CUresult refuse_query(CUmipmappedArray handle) {
  TSR_CURRENT(context);
  struct tsr_mipmap_facts facts;
  return tsr_mipmap_read(handle, &facts) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult tsr_cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                                 CUmipmappedArray mipmap) {
  return sparseProperties ? refuse_query(mipmap) : CUDA_ERROR_INVALID_VALUE;
}

CUresult tsr_cuMipmappedArrayGetMemoryRequirements(
    CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray mipmap, CUdevice device) {
  (void)device;
  return memoryRequirements ? refuse_query(mipmap) : CUDA_ERROR_INVALID_VALUE;
}
