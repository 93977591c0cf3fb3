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

/* Free the arrays of contexts that have ended; their memory is gone. */
static void drop_arrays(struct tsr_context *context) {
  (void)context;
  pthread_mutex_lock(&lock);
  for (struct tsr_array **place = &all; *place;) {
    struct tsr_array *array = *place;
    if (lives(array)) {
      place = &array->next;
      continue;
    }
    *place = array->next;
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
  array->next = all;
  all = array;
  *handle = tsr_object_publish(TSR_ARRAY, array);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}

static void unlink_locked(const struct tsr_array *array) {
  struct tsr_array **place = &all;
  while (*place && *place != array) place = &(*place)->next;
  if (*place) *place = array->next;
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
