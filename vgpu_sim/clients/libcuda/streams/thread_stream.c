#include "streams/thread_stream.h"

#include <pthread.h>

#include "old_symbol.h"
#include "streams/group.h"
#include "streams/stream_ring.h"

TSR_OLD_SYMBOL(pthread_key_create);
TSR_OLD_SYMBOL(pthread_key_delete);
TSR_OLD_SYMBOL(pthread_setspecific);
#pragma weak pthread_key_create
#pragma weak pthread_key_delete
#pragma weak pthread_setspecific

/* Handles, by the index of the context, which a later context may reuse. */
static __thread uint64_t mine[TESSERA_MAX_CONTEXTS];

static pthread_mutex_t making_key = PTHREAD_MUTEX_INITIALIZER;
static bool has_key; /* guarded by making_key */
static pthread_key_t key;

static void release(void *handles) {
  const uint64_t *theirs = handles;
  for (uint32_t i = 0; i < TESSERA_MAX_CONTEXTS; i++)
    if (theirs[i]) tsr_stream_drop(theirs[i]);
}

/* When the library is unloaded, threads that end later must not call `release` any more. */
__attribute__((destructor)) static void forget_key(void) {
  int (*const forget)(pthread_key_t) = pthread_key_delete;
  if (has_key && forget) forget(key);
}

/* Have the thread's streams released when it ends. A program without libpthread has no other
 * thread that could end. */
static void release_at_end(void) {
  int (*const create)(pthread_key_t *, void (*)(void *)) = pthread_key_create;
  int (*const set)(pthread_key_t, const void *) = pthread_setspecific;
  if (!create || !set) return;
  pthread_mutex_lock(&making_key);
  if (!has_key) has_key = create(&key, release) == 0;
  const bool made = has_key;
  pthread_mutex_unlock(&making_key);
  if (made) set(key, mine);
}

CUresult tsr_thread_stream(struct tsr_context *context, struct tsr_stream **stream) {
  uint64_t *const handle = &mine[context->index];
  *stream = TSR_FIND(tsr_stream, TSR_STREAM, *handle);
  if (*stream && (*stream)->context_handle == tsr_object_handle(TSR_CONTEXT, context))
    return CUDA_SUCCESS;
  if (*stream) tsr_stream_drop(*handle); /* of an earlier context with this index */
  *handle = 0;
  const CUresult result = tsr_stream_new(context, 0, handle);
  if (result != CUDA_SUCCESS) return result;
  release_at_end();
  struct tsr_stream *made = TSR_FIND(tsr_stream, TSR_STREAM, *handle);
  if (made) tsr_group_join(context, made->index, 0);
  *stream = TSR_FIND(tsr_stream, TSR_STREAM, *handle);
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
