/* A task has two requests in its ring: a NOP, after which the task may run, and an AWAIT, which
 * waits for a word in pinned memory: how many of the ring's tasks have run. */
#define _GNU_SOURCE
#include "callbacks/host_queue.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "background.h"
#include "base/refuse.h"
#include "exchange/doorbell.h"
#include "exchange/health.h"
#include "exchange/ring.h"
#include "exchange/wait.h"
#include "memory/memory.h"
#include "process.h"

enum { LOOK_MS = 20 };

struct tsr_host_queue {
  struct tsr_context *context;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct tsr_host_task *first, **end; /* guarded by the lock */
  bool stopping;                      /* guarded by the lock */
  bool started;
  pthread_t thread;
  uint64_t address; /* of `done` */
  uint64_t *done;   /* per ring: tasks that have run */
  uint64_t issued[TESSERA_MAX_STREAMS]; /* per ring: tasks enqueued; guarded by the ring's lock */
};

static bool is_first_of_ring(const struct tsr_host_queue *queue, const struct tsr_host_task *task) {
  for (const struct tsr_host_task *one = queue->first; one != task; one = one->next)
    if (one->stream == task->stream) return false;
  return true;
}

static bool is_ready(const struct tsr_host_queue *queue, const struct tsr_host_task *task) {
  if (!task->values) return tsr_reached(queue->context, task->stream, task->value);
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++)
    if (!tsr_reached(queue->context, i, task->values[i])) return false;
  return true;
}

/* Take a task that may run now; NULL: there is none. Under the lock. */
static struct tsr_host_task *take_ready(struct tsr_host_queue *queue, bool failed) {
  for (struct tsr_host_task **link = &queue->first; *link; link = &(*link)->next) {
    struct tsr_host_task *task = *link;
    if (!task->values && !is_first_of_ring(queue, task)) continue;
    if (!failed && !is_ready(queue, task)) continue;
    *link = task->next;
    if (!task->next) queue->end = link;
    return task;
  }
  return NULL;
}

static void run(struct tsr_host_queue *queue, struct tsr_host_task *task, CUresult status) {
  const uint32_t stream = task->stream;
  const uint64_t number = task->number;
  const bool awaited = !task->values;
  tsr_in_host_function = true;
  task->run(task, status); /* may free the task */
  tsr_in_host_function = false;
  if (!awaited) return;
  __atomic_store_n(&queue->done[stream], number, __ATOMIC_RELEASE);
  atomic_thread_fence(memory_order_seq_cst);
  tsr_ring_for_request(queue->context, stream);
}

/* Wait until a request of the context ends. `progress` was read before the tasks were checked. */
static void sleep_until_progress(struct tsr_context *context, uint32_t progress) {
  const struct timespec limit = {.tv_nsec = LOOK_MS * 1000000};
  syscall(SYS_futex, &context->page->progress, FUTEX_WAIT, progress, &limit, NULL, 0);
}

/* Run one task, or sleep; returns false when the queue has stopped. */
static bool turn(struct tsr_host_queue *queue) {
  struct tsr_context *context = queue->context;
  pthread_mutex_lock(&queue->lock);
  while (!queue->first && !queue->stopping) pthread_cond_wait(&queue->changed, &queue->lock);
  const bool empty = !queue->first;
  pthread_mutex_unlock(&queue->lock);
  if (empty) return false;
  __atomic_fetch_add(&context->area->waiting, 1, __ATOMIC_SEQ_CST);
  const uint32_t progress = __atomic_load_n(&context->page->progress, __ATOMIC_SEQ_CST);
  CUresult status = tsr_context_error(context);
  if (status == CUDA_SUCCESS && tsr_context_hung_up(context)) status = tsr_context_lose(context);
  pthread_mutex_lock(&queue->lock);
  struct tsr_host_task *task = take_ready(queue, status != CUDA_SUCCESS);
  pthread_mutex_unlock(&queue->lock);
  if (!task) sleep_until_progress(context, progress);
  __atomic_fetch_sub(&context->area->waiting, 1, __ATOMIC_SEQ_CST);
  if (task) run(queue, task, status);
  return true;
}

static void *serve(void *queue) {
  while (turn(queue)) {
  }
  return NULL;
}

static CUresult new_queue(struct tsr_context *context, struct tsr_host_queue **made) {
  if (!(context->page->features & TESSERA_FEATURE_VALUES))
    TSR_REFUSE("a host function with a worker of an older version");
  struct tsr_host_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = tsr_memory_allocate(context, (struct tsr_sort){.use = TSR_USE_PINNED},
                                        TESSERA_MAX_STREAMS * sizeof *queue->done,
                                        &queue->address);
  if (result == CUDA_SUCCESS) {
    queue->done = (uint64_t *)(uintptr_t)queue->address;
    memset(queue->done, 0, TESSERA_MAX_STREAMS * sizeof *queue->done);
    queue->context = context;
    queue->end = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    queue->started = tsr_background_start(serve, queue, &queue->thread);
    if (!queue->started) result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  if (result == CUDA_SUCCESS) {
    *made = queue;
  } else {
    if (queue->address) tsr_memory_free(queue->address, TSR_USE_PINNED);
    free(queue);
  }
  return result;
}

static CUresult queue_of(struct tsr_context *context, struct tsr_host_queue **queue) {
  CUresult result = CUDA_SUCCESS;
  *queue = atomic_load_explicit(&context->host_queue, memory_order_acquire);
  if (*queue) return CUDA_SUCCESS;
  pthread_mutex_lock(&context->host_queue_lock);
  *queue = atomic_load(&context->host_queue);
  if (!*queue && !tsr_object_lives(context)) result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!*queue && result == CUDA_SUCCESS) {
    result = new_queue(context, queue);
    if (result == CUDA_SUCCESS) atomic_store(&context->host_queue, *queue);
  }
  pthread_mutex_unlock(&context->host_queue_lock);
  return result;
}

static void append(struct tsr_host_queue *queue, struct tsr_host_task *task) {
  pthread_mutex_lock(&queue->lock);
  task->next = NULL;
  *queue->end = task;
  queue->end = &task->next;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}

CUresult tsr_host_enqueue(struct tsr_context *context, uint32_t stream,
                          struct tsr_host_task *task) {
  struct tsr_host_queue *queue;
  CUresult result = queue_of(context, &queue);
  if (result != CUDA_SUCCESS) return result;
  struct tsr_request request;
  tsr_ring_lock(&request, context, stream);
  result = tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  task->stream = stream;
  task->value = request.value;
  result = tsr_ring_begin_next(&request, TESSERA_OPCODE_AWAIT, 0, NULL);
  if (result != CUDA_SUCCESS) return result;
  task->number = ++queue->issued[stream];
  request.slot->body.value =
      (tessera_value_body){.address = queue->address + stream * sizeof *queue->done,
                           .value = task->number,
                           .width_bytes = sizeof *queue->done,
                           .condition = TESSERA_CONDITION_AT_LEAST};
  append(queue, task);
  tsr_ring_commit(&request);
  return CUDA_SUCCESS;
}

CUresult tsr_host_follow(struct tsr_context *context, struct tsr_host_task *task) {
  struct tsr_host_queue *queue;
  task->stream = TESSERA_MAX_STREAMS;
  CUresult result = queue_of(context, &queue);
  if (result != CUDA_SUCCESS) return result;
  pthread_mutex_lock(&context->host_queue_lock);
  queue = atomic_load(&context->host_queue);
  if (queue)
    append(queue, task);
  else
    result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  pthread_mutex_unlock(&context->host_queue_lock);
  return result;
}

void tsr_host_stop(struct tsr_context *context) {
  pthread_mutex_lock(&context->host_queue_lock);
  struct tsr_host_queue *queue = atomic_exchange(&context->host_queue, NULL);
  pthread_mutex_unlock(&context->host_queue_lock);
  if (!queue) return;
  pthread_mutex_lock(&queue->lock);
  queue->stopping = true;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  tsr_background_join(queue->thread);
  free(queue); /* its pinned memory goes with the context */
}
