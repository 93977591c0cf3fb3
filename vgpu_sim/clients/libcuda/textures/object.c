#include "textures/object.h"

#include <stdlib.h>
#include <string.h>

#include "arrays/array.h"
#include "base/hooks.h"
#include "memory/memory.h"
#include "textures/retired.h"

enum { BUCKETS = 4096, ALIGN_BYTES = 512 };

struct entry {
  struct tsr_retired retired; /* used once the object is destroyed */
  struct entry *next;
  struct tsr_texture_facts facts;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */
static struct entry *buckets[BUCKETS];

static struct entry **bucket_of(uint64_t handle) {
  return &buckets[handle / ALIGN_BYTES % BUCKETS];
}

static bool lives(const struct entry *entry) {
  return TSR_FIND(tsr_context, TSR_CONTEXT, entry->facts.context_handle) != NULL;
}

/* Find where the table refers to an object, or to NULL. */
static struct entry **place_of(uint64_t handle, enum tsr_descriptor_kind kind) {
  struct entry **place = bucket_of(handle);
  while (*place && ((*place)->facts.address != handle || (*place)->facts.kind != kind ||
                    !lives(*place)))
    place = &(*place)->next;
  return place;
}

/* Write a descriptor to zeroed device memory. */
static CUresult write_descriptor(struct tsr_context *context,
                                 const struct tsr_descriptor *descriptor, uint64_t *address) {
  struct tsr_span span;
  const CUresult result = tsr_array_allocate(context, sizeof *descriptor, address);
  if (result != CUDA_SUCCESS) return result;
  if (!tsr_memory_find(*address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  memcpy(span.alias, descriptor, sizeof *descriptor);
  return CUDA_SUCCESS;
}

/* Free the objects of contexts that have ended; their memory is gone. */
static void drop_textures(struct tsr_context *context) {
  (void)context;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < BUCKETS; i++)
    for (struct entry **place = &buckets[i]; *place;) {
      struct entry *entry = *place;
      if (lives(entry)) {
        place = &entry->next;
        continue;
      }
      *place = entry->next;
      free(entry);
    }
  pthread_mutex_unlock(&lock);
}

CUresult tsr_texture_add(struct tsr_texture_facts *facts, const struct tsr_descriptor *descriptor) {
  struct entry *entry = malloc(sizeof *entry);
  if (!entry) return CUDA_ERROR_OUT_OF_MEMORY;
  tsr_retired_release(facts->context);
  const CUresult result = write_descriptor(facts->context, descriptor, &facts->address);
  if (result != CUDA_SUCCESS) {
    free(entry);
    return result;
  }
  entry->facts = *facts;
  tsr_hook_add(TSR_ON_CLOSE, drop_textures);
  pthread_mutex_lock(&lock);
  struct entry **place = bucket_of(facts->address);
  entry->next = *place;
  *place = entry;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

bool tsr_texture_find(uint64_t handle, enum tsr_descriptor_kind kind,
                      struct tsr_texture_facts *facts) {
  pthread_mutex_lock(&lock);
  const struct entry *entry = *place_of(handle, kind);
  if (entry) *facts = entry->facts;
  pthread_mutex_unlock(&lock);
  return entry != NULL;
}

CUresult tsr_texture_destroy(uint64_t handle, enum tsr_descriptor_kind kind) {
  pthread_mutex_lock(&lock);
  struct entry **place = place_of(handle, kind);
  struct entry *entry = *place;
  if (entry) *place = entry->next;
  pthread_mutex_unlock(&lock);
  if (!entry) return CUDA_ERROR_INVALID_VALUE;
  entry->retired.address = handle;
  return tsr_retired_add(entry->facts.context, entry->facts.context_handle, &entry->retired);
}
