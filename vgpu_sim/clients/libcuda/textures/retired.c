#include "textures/retired.h"

#include <stdlib.h>

#include "base/hooks.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "memory/memory.h"

/* Guards all contexts' lists; taken before the memory lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_marked_done(const struct tsr_context *context) {
  for (uint32_t stream = 0; stream < TESSERA_MAX_STREAMS; stream++)
    if (!tsr_reached(context, stream, context->retired.mark[stream])) return false;
  return true;
}

/* Mark the waiting descriptors with the last request of every stream. */
static void mark_locked(struct tsr_context *context) {
  struct tsr_retired_list *list = &context->retired;
  list->marked = list->waiting;
  list->waiting = NULL;
  for (uint32_t stream = 0; stream < TESSERA_MAX_STREAMS; stream++)
    list->mark[stream] = tsr_ring_last(context, stream);
}

static void free_all(struct tsr_retired *first, bool with_memory) {
  while (first) {
    struct tsr_retired *one = first;
    first = one->next;
    if (with_memory) tsr_memory_release(one->address, TSR_USE_ARRAY);
    free(one);
  }
}

/* The memory is released under the lock, so that the context cannot end meanwhile and another one
 * reuse the address. */
static void release_locked(struct tsr_context *context) {
  struct tsr_retired_list *list = &context->retired;
  while (list->marked || list->waiting) {
    if (!list->marked) mark_locked(context);
    if (!is_marked_done(context)) return;
    for (const struct tsr_retired *one = list->marked; one; one = one->next)
      atomic_fetch_sub(&list->count, 1);
    free_all(list->marked, true);
    list->marked = NULL;
  }
}

void tsr_retired_release(struct tsr_context *context) {
  if (atomic_load_explicit(&context->retired.count, memory_order_relaxed) == 0) return;
  pthread_mutex_lock(&lock);
  release_locked(context);
  pthread_mutex_unlock(&lock);
}

/* Forget those of a context that has ended; their memory is gone. */
static void drop_retired(struct tsr_context *context) {
  pthread_mutex_lock(&lock);
  free_all(context->retired.marked, false);
  free_all(context->retired.waiting, false);
  context->retired.marked = context->retired.waiting = NULL;
  context->retired.count = 0;
  pthread_mutex_unlock(&lock);
}

CUresult tsr_retired_add(struct tsr_context *context, uint64_t context_handle,
                         struct tsr_retired *one) {
  tsr_hook_add(TSR_ON_SYNCHRONIZED, tsr_retired_release);
  tsr_hook_add(TSR_ON_CLOSE, drop_retired);
  pthread_mutex_lock(&lock);
  const bool lives = TSR_FIND(tsr_context, TSR_CONTEXT, context_handle) == context;
  bool full = false;
  if (lives) {
    one->next = context->retired.waiting;
    context->retired.waiting = one;
    atomic_fetch_add(&context->retired.count, 1);
    release_locked(context);
    full = context->retired.count > TSR_MAX_RETIRED;
  }
  pthread_mutex_unlock(&lock);
  if (!lives) free(one);
  if (!full) return CUDA_SUCCESS;
  const CUresult result = tsr_wait_all(context);
  tsr_retired_release(context);
  return result;
}
