/* Work queues for frames, and tables of work queues over which a hash spreads frames (RSS). Each
 * work queue is a raw packet queue pair in hcad. hcad has no tables: flows name the queue pairs. */
#include <errno.h>
#include <stdlib.h>

#include "api.h"
#include "verbs_calls.h"

static int post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  return tsr_post_recv(((struct tsr_wq *)wq)->qp, wr, bad);
}

struct ibv_wq *tsr_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr) {
  if (attr->wq_type != IBV_WQT_RQ || attr->comp_mask != 0 || !attr->pd || !attr->cq ||
      attr->max_sge > TESSERA_HCA_MAX_SGE) {
    errno = EINVAL;
    return NULL;
  }
  struct tsr_wq *wq = calloc(1, sizeof *wq);
  if (!wq) return NULL;
  struct ibv_qp_init_attr own = {.send_cq = attr->cq,
                                 .recv_cq = attr->cq,
                                 .cap.max_recv_wr = attr->max_wr,
                                 .qp_type = TESSERA_VERBS_QP_TYPE_RAW_PACKET};
  wq->qp = tsr_ibv_create_qp(attr->pd, &own);
  if (!wq->qp) {
    free(wq);
    return NULL;
  }
  attr->max_wr = own.cap.max_recv_wr;
  attr->max_sge = own.cap.max_recv_sge;
  wq->ibv = (struct ibv_wq){.context = context,
                            .wq_context = attr->wq_context,
                            .pd = attr->pd,
                            .cq = attr->cq,
                            .wq_num = wq->qp->qp_num,
                            .handle = wq->qp->handle,
                            .state = IBV_WQS_RESET,
                            .wq_type = IBV_WQT_RQ,
                            .post_recv = post_recv};
  pthread_mutex_init(&wq->ibv.mutex, NULL);
  pthread_cond_init(&wq->ibv.cond, NULL);
  return &wq->ibv;
}

static int set(struct ibv_qp *qp, int state) {
  struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
  const int port = state == TESSERA_VERBS_STATE_INIT ? TESSERA_VERBS_MASK_PORT : 0;
  return tsr_ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE | port);
}

int tsr_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr) {
  struct tsr_wq *wq = (struct tsr_wq *)ibv;
  if (attr->attr_mask & ~(uint32_t)(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE)) return EOPNOTSUPP;
  if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE && attr->curr_wq_state != ibv->state) return EINVAL;
  if (!(attr->attr_mask & IBV_WQ_ATTR_STATE) || attr->wq_state == ibv->state) return 0;
  int error = EINVAL;
  if (attr->wq_state == IBV_WQS_RESET) error = set(wq->qp, TESSERA_VERBS_STATE_RESET);
  if (attr->wq_state == IBV_WQS_ERR) error = set(wq->qp, TESSERA_VERBS_STATE_ERR);
  if (attr->wq_state == IBV_WQS_RDY && ibv->state == IBV_WQS_RESET) {
    error = set(wq->qp, TESSERA_VERBS_STATE_INIT);
    if (error == 0) error = set(wq->qp, TESSERA_VERBS_STATE_RTR);
  }
  if (error == 0) ibv->state = attr->wq_state;
  return error;
}

int tsr_destroy_wq(struct ibv_wq *ibv) {
  struct tsr_wq *wq = (struct tsr_wq *)ibv;
  if (wq->users != 0) return EBUSY;
  const int error = tsr_ibv_destroy_qp(wq->qp);
  if (error == 0) free(wq);
  return error;
}

struct ibv_rwq_ind_table *tsr_create_rwq_ind_table(struct ibv_context *context,
                                                   struct ibv_rwq_ind_table_init_attr *attr) {
  struct tsr_wq_table *table = NULL;
  if (attr->comp_mask != 0 || attr->log_ind_tbl_size > 7)
    errno = EINVAL;
  else
    table = calloc(1, sizeof *table);
  if (!table) return NULL;
  table->ibv.context = context;
  table->count = 1u << attr->log_ind_tbl_size;
  pthread_mutex_lock(&context->mutex);
  for (unsigned i = 0; i < table->count; i++) {
    table->wqs[i] = (struct tsr_wq *)attr->ind_tbl[i];
    table->wqs[i]->users++;
  }
  pthread_mutex_unlock(&context->mutex);
  return &table->ibv;
}

int tsr_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ibv) {
  struct tsr_wq_table *table = (struct tsr_wq_table *)ibv;
  if (table->users != 0) return EBUSY;
  pthread_mutex_lock(&ibv->context->mutex);
  for (unsigned i = 0; i < table->count; i++) table->wqs[i]->users--;
  pthread_mutex_unlock(&ibv->context->mutex);
  free(table);
  return 0;
}
