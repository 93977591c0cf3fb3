/* Queue pairs of ids: rdma_create_qp, changes of state, rdma_destroy_qp. */
#include <errno.h>
#include <string.h>

#include "api.h"
#include "ids.h"
#include "verbs_api.h"

enum { MASK_PD = 1 }; /* IBV_QP_INIT_ATTR_PD */

static const unsigned ALL_REMOTE = TESSERA_VERBS_ACCESS_REMOTE_WRITE |
                                   TESSERA_VERBS_ACCESS_REMOTE_READ |
                                   TESSERA_VERBS_ACCESS_REMOTE_ATOMIC;

static bool is_datagrams(const struct tsr_id *id) {
  return id->rdma.qp_type == TESSERA_VERBS_QP_TYPE_UD;
}

static int initial(const struct tsr_id *id, struct ibv_qp_attr *attr) {
  attr->qp_state = TESSERA_VERBS_STATE_INIT;
  attr->port_num = id->rdma.port_num;
  attr->pkey_index = 0;
  const int mask =
      TESSERA_VERBS_MASK_STATE | TESSERA_VERBS_MASK_PKEY_INDEX | TESSERA_VERBS_MASK_PORT;
  if (is_datagrams(id)) {
    attr->qkey = id->qkey;
    return mask | TESSERA_VERBS_MASK_QKEY;
  }
  attr->qp_access_flags = ALL_REMOTE;
  return mask | TESSERA_VERBS_MASK_ACCESS_FLAGS;
}

static int ready_to_receive(const struct tsr_id *id, struct ibv_qp_attr *attr) {
  const tessera_hca_qp_attributes *path = &id->path;
  attr->qp_state = TESSERA_VERBS_STATE_RTR;
  if (is_datagrams(id)) return TESSERA_VERBS_MASK_STATE;
  attr->path_mtu = (int)path->path_mtu;
  attr->dest_qp_num = path->dest_qpn;
  attr->rq_psn = path->rq_psn;
  attr->max_dest_rd_atomic = id->responder_resources;
  attr->min_rnr_timer = path->min_rnr_timer;
  attr->qp_access_flags = TESSERA_VERBS_ACCESS_REMOTE_WRITE;
  if (id->responder_resources) attr->qp_access_flags = ALL_REMOTE;
  attr->ah_attr = (struct ibv_ah_attr){.is_global = path->is_global, .port_num = path->av_port};
  struct ibv_global_route *grh = &attr->ah_attr.grh;
  memcpy(&grh->dgid, path->dgid, sizeof grh->dgid);
  grh->sgid_index = path->sgid_index;
  grh->hop_limit = path->hop_limit;
  grh->traffic_class = path->traffic_class;
  return TESSERA_VERBS_MASK_STATE | TESSERA_VERBS_MASK_AV | TESSERA_VERBS_MASK_PATH_MTU |
         TESSERA_VERBS_MASK_DEST_QPN | TESSERA_VERBS_MASK_RQ_PSN |
         TESSERA_VERBS_MASK_MAX_DEST_RD_ATOMIC | TESSERA_VERBS_MASK_MIN_RNR_TIMER |
         TESSERA_VERBS_MASK_ACCESS_FLAGS;
}

static int ready_to_send(const struct tsr_id *id, struct ibv_qp_attr *attr) {
  const tessera_hca_qp_attributes *path = &id->path;
  attr->qp_state = TESSERA_VERBS_STATE_RTS;
  attr->sq_psn = path->sq_psn;
  if (is_datagrams(id)) return TESSERA_VERBS_MASK_STATE | TESSERA_VERBS_MASK_SQ_PSN;
  attr->timeout = path->timeout;
  attr->retry_cnt = path->retry_count;
  attr->rnr_retry = path->rnr_retry;
  attr->max_rd_atomic = id->initiator_depth;
  return TESSERA_VERBS_MASK_STATE | TESSERA_VERBS_MASK_TIMEOUT | TESSERA_VERBS_MASK_RETRY_CNT |
         TESSERA_VERBS_MASK_RNR_RETRY | TESSERA_VERBS_MASK_SQ_PSN |
         TESSERA_VERBS_MASK_MAX_QP_RD_ATOMIC;
}

int tsr_rdma_init_qp_attr(struct rdma_cm_id *rdma, struct ibv_qp_attr *attr, int *mask) {
  const struct tsr_id *id = (const struct tsr_id *)rdma;
  if (!rdma->verbs) return tsr_cm_result(EINVAL);
  switch (attr->qp_state) {
    case TESSERA_VERBS_STATE_INIT: *mask = initial(id, attr); return 0;
    case TESSERA_VERBS_STATE_RTR:
      if (!id->has_path && !is_datagrams(id)) return tsr_cm_result(EINVAL);
      *mask = ready_to_receive(id, attr);
      return 0;
    case TESSERA_VERBS_STATE_RTS:
      if (!id->has_path && !is_datagrams(id)) return tsr_cm_result(EINVAL);
      *mask = ready_to_send(id, attr);
      return 0;
    default: return tsr_cm_result(EINVAL);
  }
}

static int change(struct ibv_qp *qp, int (*make)(const struct tsr_id *, struct ibv_qp_attr *),
                  const struct tsr_id *id) {
  struct ibv_qp_attr attr = {0};
  const int mask = make(id, &attr);
  return ibv_modify_qp(qp, &attr, mask);
}

static uint8_t at_most(uint8_t wanted) {
  return wanted < TESSERA_HCA_MAX_RD_ATOMIC ? wanted : (uint8_t)TESSERA_HCA_MAX_RD_ATOMIC;
}

int tsr_qp_connect(struct tsr_id *id, uint8_t responder_resources, uint8_t initiator_depth) {
  id->responder_resources = at_most(responder_resources);
  id->initiator_depth = at_most(initiator_depth);
  struct ibv_qp_attr attrs[2] = {{0}};
  int masks[2] = {ready_to_receive(id, &attrs[0]), ready_to_send(id, &attrs[1])};
  return tsr_cm_result(tessera_modify_qp_twice(id->rdma.qp, attrs, masks));
}

void tsr_qp_fail(struct tsr_id *id) {
  if (!id->rdma.qp || is_datagrams(id)) return;
  struct ibv_qp_attr attr = {.qp_state = TESSERA_VERBS_STATE_ERR};
  ibv_modify_qp(id->rdma.qp, &attr, TESSERA_VERBS_MASK_STATE);
}

static void destroy_cqs(struct rdma_cm_id *rdma) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (!id->own_cqs) return;
  if (rdma->recv_cq) ibv_destroy_cq(rdma->recv_cq);
  if (rdma->send_cq) ibv_destroy_cq(rdma->send_cq);
  if (rdma->recv_cq_channel) ibv_destroy_comp_channel(rdma->recv_cq_channel);
  if (rdma->send_cq_channel) ibv_destroy_comp_channel(rdma->send_cq_channel);
  rdma->recv_cq = rdma->send_cq = NULL;
  rdma->recv_cq_channel = rdma->send_cq_channel = NULL;
  id->own_cqs = false;
}

static struct ibv_cq *make_cq(struct rdma_cm_id *rdma, uint32_t entries,
                              struct ibv_comp_channel **channel) {
  *channel = ibv_create_comp_channel(rdma->verbs);
  if (!*channel) return NULL;
  return ibv_create_cq(rdma->verbs, entries ? (int)entries : 1, rdma, *channel, 0);
}

/* Make completion queues for programs that pass none: one for each direction, with a channel. */
static int make_cqs(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *attr) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  id->own_cqs = !attr->send_cq || !attr->recv_cq;
  if (!attr->recv_cq) {
    attr->recv_cq = rdma->recv_cq = make_cq(rdma, attr->cap.max_recv_wr, &rdma->recv_cq_channel);
    if (!attr->recv_cq) return errno;
  }
  if (!attr->send_cq) {
    attr->send_cq = rdma->send_cq = make_cq(rdma, attr->cap.max_send_wr, &rdma->send_cq_channel);
    if (!attr->send_cq) return errno;
  }
  return 0;
}

static bool is_plain(const struct ibv_qp_init_attr_ex *attr) {
  /* the extended structure begins with the plain one */
  return !(attr->comp_mask & ~(uint32_t)MASK_PD);
}

static struct ibv_qp *make(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *attr) {
  struct verbs_context *verbs =
      (struct verbs_context *)((uint8_t *)rdma->verbs - offsetof(struct verbs_context, context));
  return verbs->create_qp_ex(rdma->verbs, attr);
}

static int initialize(struct tsr_id *id, struct ibv_qp *qp) {
  int error = change(qp, initial, id);
  if (error == 0 && is_datagrams(id)) error = change(qp, ready_to_receive, id);
  if (error == 0 && is_datagrams(id)) error = change(qp, ready_to_send, id);
  return error;
}

/* Make a plain queue pair, and the queues that the program did not pass, in one request. */
static int make_at_once(struct tsr_id *id, struct ibv_qp_init_attr_ex *attr, struct ibv_qp **made) {
  struct rdma_cm_id *rdma = &id->rdma;
  const bool own_recv = !attr->recv_cq, own_send = !attr->send_cq;
  struct ibv_qp_attr first = {0};
  const int mask = initial(id, &first);
  struct ibv_qp_init_attr *plain = (struct ibv_qp_init_attr *)attr;
  struct ibv_qp *qp = tessera_create_qp(attr->pd, plain, rdma, &first, mask);
  if (!qp) return errno;
  if (own_recv) rdma->recv_cq = attr->recv_cq, rdma->recv_cq_channel = attr->recv_cq->channel;
  if (own_send) rdma->send_cq = attr->send_cq, rdma->send_cq_channel = attr->send_cq->channel;
  id->own_cqs = own_recv || own_send;
  int error = 0;
  if (is_datagrams(id)) error = change(qp, ready_to_receive, id);
  if (is_datagrams(id) && error == 0) error = change(qp, ready_to_send, id);
  *made = qp;
  return error;
}

int tsr_rdma_create_qp_ex(struct rdma_cm_id *rdma, struct ibv_qp_init_attr_ex *attr) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (rdma->qp || !rdma->verbs) return tsr_cm_result(EINVAL);
  if (!(attr->comp_mask & MASK_PD)) {
    attr->comp_mask |= MASK_PD;
    attr->pd = rdma->pd ? rdma->pd : tsr_default_pd();
    if (!attr->pd) return -1;
  }
  if (!attr->pd || attr->pd->context != rdma->verbs || attr->qp_type != rdma->qp_type)
    return tsr_cm_result(EINVAL);
  struct ibv_cq *const recv_cq = attr->recv_cq, *const send_cq = attr->send_cq;
  struct ibv_qp *qp = NULL;
  int error = is_plain(attr) ? make_at_once(id, attr, &qp) : make_cqs(rdma, attr);
  if (error == 0 && !is_plain(attr)) {
    qp = make(rdma, attr);
    error = qp ? initialize(id, qp) : errno;
  }
  if (error != 0) {
    if (qp) ibv_destroy_qp(qp);
    destroy_cqs(rdma);
    attr->recv_cq = recv_cq; /* restored, so that the program may try again */
    attr->send_cq = send_cq;
    return tsr_cm_result(error);
  }
  rdma->qp = qp;
  rdma->pd = attr->pd;
  return 0;
}

int tsr_rdma_create_qp(struct rdma_cm_id *rdma, struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
  struct ibv_qp_init_attr_ex wide = {.qp_context = attr->qp_context,
                                     .send_cq = attr->send_cq,
                                     .recv_cq = attr->recv_cq,
                                     .srq = attr->srq,
                                     .cap = attr->cap,
                                     .qp_type = attr->qp_type,
                                     .sq_sig_all = attr->sq_sig_all,
                                     .comp_mask = pd ? MASK_PD : 0,
                                     .pd = pd};
  const int result = tsr_rdma_create_qp_ex(rdma, &wide);
  attr->cap = wide.cap;
  return result;
}

void tsr_rdma_destroy_qp(struct rdma_cm_id *rdma) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (rdma->qp && id->own_cqs) {
    tessera_destroy_qp(rdma->qp, rdma->recv_cq, rdma->send_cq);
    rdma->recv_cq = rdma->send_cq = NULL;
    rdma->recv_cq_channel = rdma->send_cq_channel = NULL;
    id->own_cqs = false;
  } else if (rdma->qp) {
    ibv_destroy_qp(rdma->qp);
  }
  rdma->qp = NULL;
  destroy_cqs(rdma);
}
