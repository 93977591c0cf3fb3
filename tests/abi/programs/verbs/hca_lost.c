/* Posts requests that cannot complete, waits for a line (hcad is killed meanwhile), and prints
 * the results. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { SENDS = 3, RECEIVES = 2, DEPTH = 8 };

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv) {
  struct ibv_qp_init_attr wanted = {.send_cq = send,
                                    .recv_cq = recv,
                                    .cap = {DEPTH, DEPTH, 1, 1, 0},
                                    .qp_type = IBV_QPT_RC};
  struct ibv_qp *qp = ibv_create_qp(pd, &wanted);
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  if (!qp || ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                          IBV_QP_ACCESS_FLAGS))
    exit(2);
  return qp;
}

static void join(struct ibv_qp *qp, struct ibv_qp *peer, const union ibv_gid *gid) {
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = peer->qp_num,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1,
                                        .port_num = 1,
                                        .grh = {.dgid = *gid, .sgid_index = 1, .hop_limit = 1}}};
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  if (ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER) ||
      ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    exit(3);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void post(struct ibv_qp *qp, uint64_t id) {
  struct ibv_send_wr wr = {.wr_id = id, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  struct ibv_send_wr *bad;
  const int error = ibv_post_send(qp, &wr, &bad);
  if (error) printf("post %d\n", error);
}

static void drain(struct ibv_cq *cq, int count) {
  const double end = now() + 10;
  while (count > 0 && now() < end) {
    struct ibv_wc done;
    const int got = ibv_poll_cq(cq, 1, &done);
    if (got < 0) printf("poll %d\n", got);
    if (got < 0) return;
    if (got > 0) printf("id %lu %s\n", done.wr_id, ibv_wc_status_str(done.status));
    count -= got;
  }
}

int main(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
  if (!context) return 1;
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *polled = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_cq *waited = ibv_create_cq(context, 16, NULL, channel, 0);
  union ibv_gid gid;
  ibv_query_gid(context, 1, 1, &gid);
  struct ibv_qp *sender = make(pd, polled, waited), *mute = make(pd, polled, polled);
  join(sender, mute, &gid);
  join(mute, sender, &gid);
  for (uint64_t i = 0; i < RECEIVES; i++) {
    struct ibv_recv_wr wr = {.wr_id = 100 + i}, *bad;
    if (ibv_post_recv(sender, &wr, &bad)) return 4;
  }
  ibv_req_notify_cq(waited, 0);
  for (uint64_t i = 0; i < SENDS; i++) post(sender, i);
  puts("ready");
  fflush(stdout);
  char line[16];
  if (!fgets(line, sizeof line, stdin)) return 5;
  const double began = now();
  drain(polled, SENDS);
  struct ibv_cq *cq;
  void *mine;
  printf("cq event %d\n", ibv_get_cq_event(channel, &cq, &mine));
  ibv_ack_cq_events(cq, 1);
  drain(cq, RECEIVES);
  struct ibv_async_event event;
  const int first = ibv_get_async_event(context, &event);
  printf("async %d %s\n", first, ibv_event_type_str(event.event_type));
  printf("in time %d\n", now() - began < 20.0);
  const int again = ibv_get_async_event(context, &event);
  printf("async %d %d\n", again, errno == EIO);
  post(sender, 7);
  drain(polled, 1);
  ibv_req_notify_cq(waited, 0);
  const int none = ibv_get_cq_event(channel, &cq, &mine);
  printf("cq event %d %d\n", none, errno == EIO);
  drain(polled, 1);
  printf("state %d\n", sender->state == IBV_QPS_ERR);
  printf("busy %d\n", ibv_destroy_cq(polled) == EBUSY);
  const int gone = ibv_destroy_qp(sender) || ibv_destroy_qp(mute);
  printf("gone %d %d\n", gone, ibv_destroy_cq(polled));
  printf("close %d\n", ibv_destroy_cq(waited) || ibv_destroy_comp_channel(channel) ||
                           ibv_dealloc_pd(pd) || ibv_close_device(context));
  return 0;
}
