#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "background.h"
#include "log.h"
#include "operations.h"

enum { LEAST_PAUSE_NS = 10000, LONGEST_PAUSE_NS = 1000000 };

static bool wait_until_ready(struct tsr_communicator *comm, tsr_event_t event) {
  struct timespec pause = {.tv_nsec = LEAST_PAUSE_NS};
  for (;;) {
    const int status = cuEventQuery(event);
    if (status != TSR_NOT_READY) {
      if (status) tsr_fail(comm, ncclUnhandledCudaError, "CUDA error %d before an operation", status);
      return status == 0;
    }
    if (comm->mesh.aborted) return false;
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < LONGEST_PAUSE_NS) pause.tv_nsec *= 2;
  }
}

static bool all_are_ready(struct tsr_communicator *comm, const struct tsr_operation *operation) {
  if (operation->ready) return wait_until_ready(comm, operation->ready);
  for (size_t i = 0; i < operation->message_count; i++)
    if (!wait_until_ready(comm, operation->messages[i].ready)) return false;
  return true;
}

static void free_operation(struct tsr_operation *operation) {
  if (operation->ready) cuEventDestroy_v2(operation->ready);
  for (size_t i = 0; i < operation->message_count; i++)
    if (operation->messages[i].ready) cuEventDestroy_v2(operation->messages[i].ready);
  free(operation);
}

/* Return the next operation, which stays in the queue; NULL: there is none, and the engine stops. */
static struct tsr_operation *next_operation(struct tsr_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  while (!engine->first && !engine->stopping) pthread_cond_wait(&engine->changed, &engine->lock);
  struct tsr_operation *found = engine->first;
  pthread_mutex_unlock(&engine->lock);
  return found;
}

static struct tsr_operation *remove_first(struct tsr_engine *engine, bool completed) {
  pthread_mutex_lock(&engine->lock);
  struct tsr_operation *found = engine->first;
  if (found) {
    engine->first = found->next;
    if (!found->next) engine->end = &engine->first;
    if (completed) engine->completed = found->number;
  }
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  return found;
}

static bool perform(struct tsr_communicator *comm, const struct tsr_operation *operation) {
  if (comm->mesh.aborted || !all_are_ready(comm, operation)) return false;
  const ncclResult_t result = tsr_perform(comm, operation);
  if (result != ncclSuccess) {
    tsr_fail(comm, result, "an operation failed");
    return false;
  }
  if (cuStreamWriteValue64_v2(comm->engine.stream, comm->engine.done, operation->number, 0) == 0) return true;
  tsr_fail(comm, ncclUnhandledCudaError, "CUDA refuses to complete an operation");
  return false;
}

/* Streams whose operation failed wait until the program aborts or destroys the communicator: they must not
 * continue with numbers that are not there. */
static void wait_for_stop(struct tsr_communicator *comm) {
  struct tsr_engine *engine = &comm->engine;
  tsr_mesh_give_up(&comm->mesh);
  pthread_mutex_lock(&engine->lock);
  engine->failed = true;
  pthread_cond_broadcast(&engine->changed);
  while (!engine->stopping) pthread_cond_wait(&engine->changed, &engine->lock);
  const uint64_t last = engine->issued;
  pthread_mutex_unlock(&engine->lock);
  cuStreamWriteValue64_v2(engine->stream, engine->done, last, 0);
}

static void *serve(void *argument) {
  struct tsr_communicator *comm = argument;
  struct tsr_engine *engine = &comm->engine;
  cuCtxSetCurrent(comm->context);
  for (struct tsr_operation *operation; (operation = next_operation(engine));) {
    const bool done = perform(comm, operation);
    if (!done) {
      wait_for_stop(comm);
      while ((operation = remove_first(engine, false))) free_operation(operation);
      break;
    }
    free_operation(remove_first(engine, true));
  }
  cuStreamSynchronize(engine->stream);
  return NULL;
}

/* Words for `done` that ended communicators have left. Freeing one would wait for all streams, and those of another
 * communicator may wait until the program has destroyed that one, too. A word's value only grows, so that streams
 * which have not yet seen the last value of an ended communicator continue. */
static struct word {
  struct word *next;
  unsigned long long context;
  uint64_t address, value;
} *words;
static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return a word for a context that an ended communicator has left, or NULL. */
static struct word *find_word(unsigned long long context) {
  pthread_mutex_lock(&words_lock);
  struct word **place = &words;
  while (*place && (*place)->context != context) place = &(*place)->next;
  struct word *found = *place;
  if (found) *place = found->next;
  pthread_mutex_unlock(&words_lock);
  return found;
}

static bool take_word(struct tsr_communicator *comm) {
  struct tsr_engine *engine = &comm->engine;
  const uint64_t zero = 0;
  unsigned long long context;
  if (cuCtxGetId(comm->context, &context) != 0) return false;
  struct word *word = find_word(context);
  if (word) {
    engine->done = word->address;
    engine->issued = engine->completed = engine->first_number = word->value;
    free(word);
    return true;
  }
  return cuMemAlloc_v2(&engine->done, sizeof zero) == 0 &&
         cuMemcpyHtoDAsync_v2(engine->done, &zero, sizeof zero, engine->stream) == 0 &&
         cuStreamSynchronize(engine->stream) == 0;
}

static void leave_word(const struct tsr_communicator *comm) {
  struct word *word = malloc(sizeof *word);
  if (!word || !comm->engine.done || cuCtxGetId(comm->context, &word->context) != 0) {
    free(word);
    return;
  }
  word->address = comm->engine.done;
  word->value = comm->engine.issued;
  pthread_mutex_lock(&words_lock);
  word->next = words;
  words = word;
  pthread_mutex_unlock(&words_lock);
}

/* In order, and with the communicator's context. */
static ncclResult_t start(struct tsr_communicator *comm) {
  struct tsr_engine *engine = &comm->engine;
  if (engine->started) return ncclSuccess;
  engine->end = &engine->first;
  if (!engine->stream && cuStreamCreate(&engine->stream, TSR_STREAM_NON_BLOCKING) != 0)
    return ncclUnhandledCudaError;
  if (!engine->done && !take_word(comm)) return ncclUnhandledCudaError;
  if (!engine->staging) engine->staging = malloc(2 * TSR_STAGING_BYTES);
  if (!engine->staging) return ncclSystemError;
  engine->started = tsr_background_start(serve, comm, &engine->thread);
  return engine->started ? ncclSuccess : ncclSystemError;
}

static ncclResult_t record(cudaStream_t stream, tsr_event_t *ready) {
  int capturing = 0;
  if (cuStreamIsCapturing(stream, &capturing) != 0) return ncclUnhandledCudaError;
  if (capturing) {
    tsr_log("NCCL operations of several ranks cannot be captured in a CUDA graph (ncclInvalidUsage)");
    return ncclInvalidUsage;
  }
  if (cuEventCreate(ready, TSR_EVENT_DISABLE_TIMING) != 0) return ncclUnhandledCudaError;
  return cuEventRecord(*ready, stream) == 0 ? ncclSuccess : ncclUnhandledCudaError;
}

/* Make the streams wait for the operation, and append it. In order. */
static ncclResult_t append(struct tsr_communicator *comm, struct tsr_operation *operation, cudaStream_t stream) {
  struct tsr_engine *engine = &comm->engine;
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < operation->message_count && result == ncclSuccess; i++)
    result = record(operation->messages[i].stream, &operation->messages[i].ready);
  if (operation->kind != TSR_MESSAGES) result = record(stream, &operation->ready);
  if (result != ncclSuccess) return result;
  pthread_mutex_lock(&engine->lock);
  operation->number = ++engine->issued;
  *engine->end = operation;
  engine->end = &operation->next;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  return ncclSuccess;
}

static ncclResult_t make_wait(const struct tsr_engine *engine, cudaStream_t stream) {
  const int status = cuStreamWaitValue64_v2(stream, engine->done, engine->issued, TSR_WAIT_AT_LEAST);
  return status ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t tsr_engine_put(struct tsr_communicator *comm, const struct tsr_operation *operation,
                            const struct tsr_message *messages, cudaStream_t stream) {
  const size_t bytes = operation->message_count * sizeof *messages;
  struct tsr_operation *copy = malloc(sizeof *copy + bytes);
  if (!copy) return ncclSystemError;
  memcpy(copy, operation, sizeof *copy);
  if (bytes) memcpy(copy->messages, messages, bytes);
  copy->next = NULL;
  if (cuCtxPushCurrent_v2(comm->context) != 0) {
    free(copy);
    return ncclUnhandledCudaError;
  }
  pthread_mutex_lock(&comm->engine.order);
  ncclResult_t result = start(comm);
  if (result == ncclSuccess) result = append(comm, copy, stream);
  if (result != ncclSuccess) free_operation(copy);
  else if (operation->kind != TSR_MESSAGES) result = make_wait(&comm->engine, stream);
  for (size_t i = 0; i < operation->message_count && result == ncclSuccess; i++)
    result = make_wait(&comm->engine, messages[i].stream);
  pthread_mutex_unlock(&comm->engine.order);
  cuCtxPopCurrent_v2(&(tsr_context_t){0});
  return result;
}

ncclResult_t tsr_engine_drain(struct tsr_communicator *comm) {
  struct tsr_engine *engine = &comm->engine;
  pthread_mutex_lock(&engine->lock);
  while (engine->completed < engine->issued && !engine->failed)
    pthread_cond_wait(&engine->changed, &engine->lock);
  pthread_mutex_unlock(&engine->lock);
  return comm->async_error;
}

void tsr_engine_stop(struct tsr_communicator *comm) {
  struct tsr_engine *engine = &comm->engine;
  pthread_mutex_lock(&engine->lock);
  engine->stopping = true;
  pthread_cond_broadcast(&engine->changed);
  pthread_mutex_unlock(&engine->lock);
  if (engine->started) tsr_background_join(engine->thread);
  free(engine->staging);
  if (cuCtxPushCurrent_v2(comm->context) != 0) return;
  if (engine->stream) cuStreamDestroy_v2(engine->stream);
  leave_word(comm);
  cuCtxPopCurrent_v2(&(tsr_context_t){0});
}
