#include "arrays/array.h"

#include <string.h>

#include "base/hooks.h"
#include "stream_memory/allocate.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tsr_array *all;

static bool lives(const struct tsr_array *array) {
  return TSR_FIND(tsr_context, TSR_CONTEXT, array->facts.context_handle) != NULL;
}

bool tsr_array_read(CUarray handle, struct tsr_array_facts *facts) {
  pthread_mutex_lock(&lock);
  const struct tsr_array *array = TSR_FIND(tsr_array, TSR_ARRAY, handle);
  const bool found = array && lives(array);
  if (found) *facts = array->facts;
  pthread_mutex_unlock(&lock);
  return found;
}

/* Memory of its own chunk is new, and therefore zero. */
CUresult tsr_array_allocate(struct tsr_context *context, uint64_t bytes, uint64_t *address) {
  const CUresult result =
      tsr_allocate(context, (struct tsr_sort){.use = TSR_USE_ARRAY}, bytes, address);
  if (result != CUDA_SUCCESS || bytes >= TSR_OWN_CHUNK_BYTES) return result;
  struct tsr_span span;
  if (!tsr_memory_find(*address, &span)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  memset(span.alias, 0, bytes);
  return CUDA_SUCCESS;
}

/* An entry of the list has the place that refers to it, so that it can leave in constant time. */
static void link_locked(struct tsr_array *array) {
  array->next = all;
  array->place = &all;
  if (all) all->place = &array->next;
  all = array;
}

static void unlink_locked(const struct tsr_array *array) {
  *array->place = array->next;
  if (array->next) array->next->place = array->place;
}

/* Free the arrays of contexts that have ended; their memory is gone. */
static void drop_arrays(struct tsr_context *context) {
  (void)context;
  pthread_mutex_lock(&lock);
  for (struct tsr_array *array = all, *next; array; array = next) {
    next = array->next;
    if (lives(array)) continue;
    unlink_locked(array);
    tsr_object_retire(TSR_ARRAY, tsr_object_handle(TSR_ARRAY, array));
    tsr_object_free(TSR_ARRAY, array);
  }
  pthread_mutex_unlock(&lock);
}

CUresult tsr_array_add(const struct tsr_array_facts *facts, uint64_t *handle) {
  struct tsr_array *array = tsr_object_new(TSR_ARRAY);
  if (!array) return CUDA_ERROR_OUT_OF_MEMORY;
  array->facts = *facts;
  tsr_hook_add(TSR_ON_CLOSE, drop_arrays);
  pthread_mutex_lock(&lock);
  link_locked(array);
  *handle = tsr_object_publish(TSR_ARRAY, array);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

bool tsr_array_remove(uint64_t handle, bool level, struct tsr_array_facts *facts) {
  pthread_mutex_lock(&lock);
  struct tsr_array *array = TSR_FIND(tsr_array, TSR_ARRAY, handle);
  const bool found = array && lives(array) && array->facts.level == level &&
                     tsr_object_retire(TSR_ARRAY, handle);
  if (found) {
    *facts = array->facts;
    unlink_locked(array);
  }
  pthread_mutex_unlock(&lock);
  if (found) tsr_object_free(TSR_ARRAY, array);
  return found;
}
