/* Completion events of two queues that share a channel, acknowledged one at a time. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *own,
                             struct ibv_comp_channel *channel, int vector);
int ibv_destroy_cq(struct ibv_cq *cq);
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **own);
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count);
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ibv_destroy_qp(struct ibv_qp *qp);

enum { STATE = 1, ACCESS = 8, PKEY = 16, PORT = 32 };
enum { RC = 2, INIT = 1, ERR = 6, QUEUES = 2, ROUNDS = 2 };

int main(void) {
  alarm(30); /* if a lock is still held, the program hangs here */
  int count;
  struct ibv_context *context = ibv_open_device(ibv_get_device_list(&count)[0]);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *cqs[QUEUES];
  struct ibv_qp *qps[QUEUES];
  int names[QUEUES];
  for (int i = 0; i < QUEUES; i++) {
    cqs[i] = ibv_create_cq(context, 4, &names[i], channel, 0);
    struct ibv_qp_init_attr init = {.send_cq = cqs[i],
                                    .recv_cq = cqs[i],
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4},
                                    .qp_type = RC};
    qps[i] = ibv_create_qp(pd, &init);
    struct ibv_qp_attr attr = {.qp_state = INIT, .port_num = 1};
    int errors = ibv_modify_qp(qps[i], &attr, STATE | PKEY | PORT | ACCESS);
    attr.qp_state = ERR;
    errors += ibv_modify_qp(qps[i], &attr, STATE);
    printf("queue pair %d: %d\n", i, errors);
  }
  for (int round = 0; round < ROUNDS; round++)
    for (int i = QUEUES - 1; i >= 0; i--) {
      struct ibv_recv_wr receive = {.wr_id = (uint64_t)i}, *bad;
      const int armed = context->ops.req_notify_cq(cqs[i], 0);
      const int posted = context->ops.post_recv(qps[i], &receive, &bad);
      struct ibv_cq *cq = NULL;
      void *own = NULL;
      const int got = ibv_get_cq_event(channel, &cq, &own);
      printf("event %d %d %d, of it %d %d\n", armed, posted, got, cq == cqs[i], own == &names[i]);
      ibv_ack_cq_events(cq, 1);
      struct ibv_wc done;
      while (context->ops.poll_cq(cq, 1, &done) == 0) continue;
      printf("status %d of %d\n", (int)done.status, (int)done.wr_id);
    }
  for (int i = 0; i < QUEUES; i++) {
    const int in_use = ibv_destroy_cq(cqs[i]);
    const int pair = ibv_destroy_qp(qps[i]);
    printf("end %d %d %d\n", in_use, pair, ibv_destroy_cq(cqs[i]));
  }
  printf("channel %d\n", ibv_destroy_comp_channel(channel));
  return 0;
}
