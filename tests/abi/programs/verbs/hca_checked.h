/* Verbs calls whose results are checked; differences are printed and counted. */
#ifndef HCA_CHECKED_H
#define HCA_CHECKED_H

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "tessera_rdma_abi.h"

struct ibv_device **ibv_get_device_list(int *count);
void ibv_free_device_list(struct ibv_device **list);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector);
int ibv_resize_cq(struct ibv_cq *cq, int entries);
int ibv_destroy_cq(struct ibv_cq *cq);
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count);
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int ibv_destroy_srq(struct ibv_srq *srq);
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                 struct ibv_qp_init_attr *init);
int ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int ibv_destroy_ah(struct ibv_ah *ah);
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port);
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);

static int failures;
#define WANT(condition)                                                \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
      failures++;                                                      \
    }                                                                  \
  } while (0)
/* Check that a call which returns an object returns NULL and an error. */
#define REFUSED(why, call) \
  do {                     \
    errno = 0;             \
    WANT((call) == NULL);  \
    WANT(errno == (why));  \
  } while (0)

enum { LOCAL_WRITE = 1, DEPTH = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static inline struct verbs_context *verbs(void) {
  return (void *)((char *)context - offsetof(struct verbs_context, context));
}

static inline int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static inline void begin(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
}

static inline int end(void) {
  WANT(ibv_destroy_cq(cq) == 0);
  WANT(ibv_dealloc_pd(pd) == 0);
  WANT(ibv_close_device(context) == 0);
  return failures != 0;
}

static inline struct ibv_qp *make_qp(int type, struct ibv_srq *srq) {
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {DEPTH, DEPTH, 1, 1, 0}, .qp_type = type};
  return ibv_create_qp(pd, &wanted);
}

/* Move an unreliable queue pair, which is connected to itself, from one state to a later one. */
static inline void lead(struct ibv_qp *qp, int from, int to) {
  const bool connected = qp->qp_type == TESSERA_VERBS_QP_TYPE_UC;
  struct ibv_qp_attr attr = {.port_num = 1, .path_mtu = 3, .dest_qp_num = qp->qp_num, .qkey = 7};
  attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
  ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid);
  const int masks[] = {TESSERA_VERBS_MASK_PKEY_INDEX | TESSERA_VERBS_MASK_PORT |
                           (connected ? TESSERA_VERBS_MASK_ACCESS_FLAGS : TESSERA_VERBS_MASK_QKEY),
                       connected ? TESSERA_VERBS_MASK_AV | TESSERA_VERBS_MASK_PATH_MTU |
                                       TESSERA_VERBS_MASK_DEST_QPN | TESSERA_VERBS_MASK_RQ_PSN
                                 : 0,
                       TESSERA_VERBS_MASK_SQ_PSN};
  for (int state = from; state < to; state++) {
    attr.qp_state = state + 1;
    WANT(ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE | masks[state]) == 0);
    WANT(qp->state == state + 1);
  }
}

/* Return the queue's next completion; if there is none, the test's time limit ends the wait. */
static inline struct ibv_wc next_wc(void) {
  struct ibv_wc done = {0};
  int got;
  while ((got = context->ops.poll_cq(cq, 1, &done)) == 0) continue;
  WANT(got == 1);
  return done;
}

#endif
