#include "callbacks/later.h"

#include <stdlib.h>

#include "callbacks/host_queue.h"
#include "exchange/health.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

struct later {
  struct later *next;
  uint64_t context;
  void (*release)(void *);
  void *data;
  uint64_t values[TESSERA_MAX_STREAMS];
};

/* A task of the host thread that calls when the work is done. */
struct bell {
  struct tsr_host_task task; /* first member */
  void (*notify)(void);
  uint64_t values[TESSERA_MAX_STREAMS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct later *_Atomic first; /* changed under the lock */

static void ring(struct tsr_host_task *task, CUresult status) {
  (void)status;
  struct bell *bell = (struct bell *)task;
  void (*const notify)(void) = bell->notify;
  free(bell);
  notify();
}

static bool is_due(const struct later *later) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, later->context);
  if (!context || tsr_context_error(context) != CUDA_SUCCESS) return true;
  for (uint32_t stream = 0; stream < TESSERA_MAX_STREAMS; stream++)
    if (!tsr_reached(context, stream, later->values[stream])) return false;
  return true;
}

/* Without a bell, what is due is released by the next sweep. */
static void hang_bell(struct tsr_context *context, const struct later *later,
                      void (*notify)(void)) {
  struct bell *bell = malloc(sizeof *bell);
  if (!bell) return;
  bell->notify = notify;
  for (uint32_t i = 0; i < TESSERA_MAX_STREAMS; i++) bell->values[i] = later->values[i];
  bell->task = (struct tsr_host_task){.run = ring, .values = bell->values};
  if (tsr_host_follow(context, &bell->task) != CUDA_SUCCESS) free(bell);
}

void tsr_later(uint64_t handle, void (*release)(void *), void *data, void (*notify)(void)) {
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, handle);
  struct later *later = calloc(1, sizeof *later);
  if (!later) return; /* it is kept until the process ends */
  *later = (struct later){.context = handle, .release = release, .data = data};
  for (uint32_t i = 0; context && i < TESSERA_MAX_STREAMS; i++)
    later->values[i] = tsr_ring_last(context, i);
  if (is_due(later)) {
    free(later);
    release(data);
    return;
  }
  hang_bell(context, later, notify);
  pthread_mutex_lock(&lock);
  later->next = first;
  atomic_store(&first, later);
  pthread_mutex_unlock(&lock);
  notify(); /* the bell may have rung already */
}

static struct later *take_due(void) {
  struct later *found = NULL, *previous = NULL;
  pthread_mutex_lock(&lock);
  for (found = first; found && !is_due(found); found = found->next) previous = found;
  if (found && previous)
    previous->next = found->next;
  else if (found)
    atomic_store(&first, found->next);
  pthread_mutex_unlock(&lock);
  return found;
}

void tsr_later_sweep(void) {
  struct later *later;
  while (atomic_load(&first) && (later = take_due())) {
    later->release(later->data);
    free(later);
  }
}
