/* Polls a queue that stays empty; prints whether the thread slept at first, and whether it did
 * later. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector);
int ibv_destroy_cq(struct ibv_cq *cq);

static long sleeps_of(struct ibv_cq *cq, int polls) {
  struct rusage before, after;
  struct ibv_wc wc;
  getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < polls; i++)
    if (cq->context->ops.poll_cq(cq, 1, &wc) != 0) return -1;
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_nvcsw - before.ru_nvcsw;
}

int main(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
  struct ibv_cq *cq = context ? ibv_create_cq(context, 4, NULL, NULL, 0) : NULL;
  if (!cq) return 1;
  const long first = sleeps_of(cq, 1 << 11); /* it may yield, but that is not sleep */
  sleeps_of(cq, 1 << 12);
  const long later = sleeps_of(cq, 1 << 12);
  printf("first %s later %s\n", first < 8 ? "no" : "yes", later >= 60 ? "yes" : "no");
  return ibv_destroy_cq(cq) || ibv_close_device(context);
}
