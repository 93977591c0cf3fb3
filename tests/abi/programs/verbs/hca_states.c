/* An unreliable queue pair, connected to itself, recovers from an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);

enum { STATE = 1, CUR_STATE = 2, ACCESS = 8, PKEY = 16, PORT = 32, AV = 128, MTU = 256 };
enum { RQ_PSN = 1 << 12, SQ_PSN = 1 << 16, DEST_QPN = 1 << 20 };
enum { UC = 3, RTS = 3, SQE = 5, SEND = 2, READ = 4, SIGNALED = 2 };

static struct ibv_context *context;
static struct ibv_cq_ex *cq;

static struct verbs_context *verbs(void) {
  return (void *)((char *)context - offsetof(struct verbs_context, context));
}

static int post(struct ibv_qp *qp, int opcode) {
  struct ibv_send_wr wr = {.opcode = opcode, .send_flags = SIGNALED}, *bad;
  return context->ops.post_send(qp, &wr, &bad);
}

/* Return the next completion, and whether its clocks are plausible; arm the queue during the
 * poll. */
static void poll(const char *what) {
  int empty;
  while ((empty = cq->start_poll(cq, NULL)) == ENOENT) continue;
  struct ibv_values_ex now = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
  verbs()->query_rt_values(context, &now);
  const int64_t age_ns = now.raw_clock.tv_sec * INT64_C(1000000000) + now.raw_clock.tv_nsec -
                         (int64_t)cq->read_completion_ts(cq);
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const int64_t apart_ns = wall.tv_sec * INT64_C(1000000000) + wall.tv_nsec -
                           (int64_t)cq->read_completion_wallclock_ns(cq);
  const int64_t minute_ns = INT64_C(60000000000);
  printf("%s %d status %d armed %d recent %d %d\n", what, empty, cq->status,
         context->ops.req_notify_cq(&cq->base, 0), age_ns >= 0 && age_ns < minute_ns,
         llabs(apart_ns) < minute_ns);
  cq->end_poll(cq);
}

static void connect(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = 1, .port_num = 1};
  int errors = ibv_modify_qp(qp, &attr, STATE | PKEY | PORT | ACCESS);
  attr = (struct ibv_qp_attr){.qp_state = 2, .path_mtu = 3, .dest_qp_num = qp->qp_num};
  attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
  ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
  errors += ibv_modify_qp(qp, &attr, STATE | AV | MTU | DEST_QPN | RQ_PSN);
  attr.qp_state = RTS;
  errors += ibv_modify_qp(qp, &attr, STATE | SQ_PSN);
  printf("connect %d\n", errors);
}

int main(void) {
  int count;
  context = ibv_open_device(ibv_get_device_list(&count)[0]);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq_init_attr_ex wanted = {.cqe = 16, .wc_flags = 1 << 7 | 1 << 11};
  cq = verbs()->create_cq_ex(context, &wanted);
  struct ibv_qp_init_attr init = {.send_cq = &cq->base,
                                  .recv_cq = &cq->base,
                                  .cap = {.max_send_wr = 4, .max_recv_wr = 4},
                                  .qp_type = UC};
  struct ibv_parent_domain_init_attr named = {.pd = pd};
  struct ibv_pd *parent = verbs()->alloc_parent_domain(context, &named);
  const int busy = ibv_dealloc_pd(pd);
  printf("busy %d", busy);
  const int freed = ibv_dealloc_pd(parent);
  printf(" parent %d\n", freed);
  struct ibv_qp *qp = ibv_create_qp(pd, &init);
  connect(qp);
  printf("read %d\n", post(qp, READ));
  poll("read");
  struct ibv_qp_attr attr = {.qp_state = RTS, .cur_qp_state = RTS};
  printf("it is not in RTS %d\n", ibv_modify_qp(qp, &attr, STATE | CUR_STATE));
  attr.cur_qp_state = SQE;
  printf("it is in SQE %d\n", ibv_modify_qp(qp, &attr, STATE | CUR_STATE));
  printf("send %d\n", post(qp, SEND));
  poll("send");
  return 0;
}
