/* Functions of the host that run in the order of a stream, on one thread per context. */
#ifndef TSR_HOST_QUEUE_H
#define TSR_HOST_QUEUE_H

#include "base/objects.h"

struct tsr_host_task {
  /* Called once with the context's error, or CUDA_SUCCESS. */
  void (*run)(struct tsr_host_task *task, CUresult status);
  /* Filled in by the queue. */
  struct tsr_host_task *next;
  const uint64_t *values; /* per ring: the request after which it may run, if it is in no ring */
  uint32_t stream;
  uint64_t value;  /* the request after which it may run */
  uint64_t number; /* among the tasks of its ring */
};

/* Enqueue a task in a ring: it runs when all earlier requests of the ring are done, and later
 * ones wait for it. The queue does not free the task. On failure the task does not run. */
CUresult tsr_host_enqueue(struct tsr_context *context, uint32_t stream, struct tsr_host_task *task);

/* Have a task run once all rings have reached task->values; no request waits for it. */
CUresult tsr_host_follow(struct tsr_context *context, struct tsr_host_task *task);

/* End the context's thread. Tasks that still wait run with the context's error first. */
void tsr_host_stop(struct tsr_context *context);

#endif
