/* Queue pairs: ibv_create_qp, ibv_modify_qp, ibv_query_qp, ibv_destroy_qp. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "log.h"
#include "lifetime.h"
#include "memory/paging.h"
#include "verbs_calls.h"

static void forget_completions(const struct ibv_qp *qp) {
  tsr_forget_completions(qp->send_cq, qp->qp_num);
  if (qp->recv_cq != qp->send_cq) tsr_forget_completions(qp->recv_cq, qp->qp_num);
}

/* Check the privilege that Linux requires (uverbs, CAP_NET_RAW). hcad enforces security against
 * hostile programs; this check does not. */
static int check_raw(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
  if (syscall(SYS_capget, &header, data) != 0) return EPERM;
  return data[0].effective & 1u << CAP_NET_RAW ? 0 : EPERM;
}

static int check_capacity(const struct ibv_qp_cap *cap) {
  if (cap->max_send_sge > TESSERA_HCA_MAX_SGE || cap->max_recv_sge > TESSERA_HCA_MAX_SGE)
    return EINVAL;
  return cap->max_inline_data > TESSERA_HCA_MAX_INLINE_BYTES ? EINVAL : 0;
}

int tsr_qp_make_request(const struct ibv_pd *pd, const struct ibv_qp_init_attr *attr,
                        bool block_self, tessera_hca_qp_create *wanted) {
  *wanted = (tessera_hca_qp_create){.pd = pd->handle,
                                    .send_cq = attr->send_cq ? attr->send_cq->handle : 0,
                                    .recv_cq = attr->recv_cq ? attr->recv_cq->handle : 0,
                                    .type = (uint32_t)attr->qp_type,
                                    .send_wr = attr->cap.max_send_wr,
                                    .recv_wr = attr->cap.max_recv_wr,
                                    .signal_all = attr->sq_sig_all != 0,
                                    .srq = attr->srq ? attr->srq->handle : 0,
                                    .block_self = block_self};
  const int error = check_capacity(&attr->cap);
  if (error != 0 || attr->qp_type != TESSERA_VERBS_QP_TYPE_RAW_PACKET) return error;
  return check_raw();
}

static void add(struct tsr_qp *qp, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr) {
  struct tsr_context *context = tsr_of(pd->context);
  struct ibv_qp *ibv = &qp->ibv;
  ibv->context = pd->context;
  ibv->qp_context = attr->qp_context;
  ibv->pd = pd;
  ibv->send_cq = attr->send_cq;
  ibv->recv_cq = attr->recv_cq;
  ibv->srq = attr->srq;
  ibv->qp_type = attr->qp_type;
  ibv->state = TESSERA_VERBS_STATE_RESET;
  qp->signal_all = attr->sq_sig_all != 0;
  pthread_mutex_init(&ibv->mutex, NULL);
  pthread_cond_init(&ibv->cond, NULL);
  pthread_mutex_init(&qp->sending, NULL);
  pthread_mutex_init(&qp->receiving, NULL);
  tsr_set_builder(&qp->ex);
  pthread_mutex_lock(&pd->context->mutex);
  qp->next = context->qps;
  context->qps = qp;
  pthread_mutex_unlock(&pd->context->mutex);
}

int tsr_qp_init(struct tsr_qp *qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                const tessera_hca_created *made, int fd) {
  qp->page = tsr_map(fd, made->page_bytes);
  if (!qp->page) return errno;
  qp->page_bytes = made->page_bytes;
  qp->send_slots = (tessera_hca_send_slot *)(qp->page + 1);
  qp->recv_slots = (tessera_hca_recv_slot *)(qp->send_slots + made->first_count);
  qp->index = made->index;
  qp->send_count = made->first_count;
  qp->recv_count = made->second_count;
  qp->ibv.handle = qp->ibv.qp_num = made->handle;
  attr->cap = (struct ibv_qp_cap){.max_send_wr = made->first_count,
                                  .max_recv_wr = made->second_count,
                                  .max_send_sge = TESSERA_HCA_MAX_SGE,
                                  .max_recv_sge = TESSERA_HCA_MAX_SGE,
                                  .max_inline_data = TESSERA_HCA_MAX_INLINE_BYTES};
  qp->cap = attr->cap;
  add(qp, pd, attr);
  return 0;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                             bool block_self) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_qp *qp = calloc(1, sizeof *qp);
  if (!qp) return NULL;
  tessera_hca_qp_create wanted;
  tessera_hca_created made;
  int fd;
  int error = tsr_qp_make_request(pd, attr, block_self, &wanted);
  if (!attr->send_cq || !attr->recv_cq) error = EINVAL;
  if (error == 0)
    error = tsr_ask(context, TESSERA_HCA_MESSAGE_QP_CREATE, &wanted, sizeof wanted, &made,
                    sizeof made, &fd);
  if (error == 0) {
    error = tsr_qp_init(qp, pd, attr, &made, fd);
    if (error != 0) tsr_ask_handle(context, TESSERA_HCA_MESSAGE_QP_DESTROY, made.handle);
  }
  if (error == EOPNOTSUPP)
    tsr_log("ibv_create_qp: type %d is not supported: only RC, UC, UD and raw packets", attr->qp_type);
  if (error == 0) return &qp->ibv;
  free(qp);
  errno = error;
  return NULL;
}

struct ibv_qp *tsr_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
  return create(pd, attr, false);
}

/* Make a queue pair that passes its frames to the work queues of an indirection table. */
static struct ibv_qp *create_spreading(const struct ibv_qp_init_attr_ex *attr) {
  const uint32_t both = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  struct tsr_wq_table *table = (struct tsr_wq_table *)attr->rwq_ind_tbl;
  const bool hashes = attr->rx_hash_conf.function == IBV_RX_HASH_FUNC_TOEPLITZ &&
                      attr->rx_hash_conf.key_len == TESSERA_HCA_HASH_KEY_BYTES &&
                      (attr->rx_hash_conf.fields_mask & ~(uint64_t)TSR_RX_HASH_KNOWN) == 0;
  if ((attr->comp_mask & both) != both || !table || !hashes ||
      attr->qp_type != TESSERA_VERBS_QP_TYPE_RAW_PACKET) {
    errno = EINVAL;
    return NULL;
  }
  struct ibv_cq *cq = table->wqs[0]->ibv.cq; /* it has no requests of its own */
  struct ibv_qp_init_attr own = {.qp_context = attr->qp_context,
                                 .send_cq = cq,
                                 .recv_cq = cq,
                                 .qp_type = attr->qp_type};
  struct tsr_qp *qp = (struct tsr_qp *)create(attr->pd, &own, false);
  if (!qp) return NULL;
  qp->table = table;
  qp->hash_fields = attr->rx_hash_conf.fields_mask;
  memcpy(qp->hash_key, attr->rx_hash_conf.key, sizeof qp->hash_key);
  pthread_mutex_lock(&attr->pd->context->mutex);
  table->users++;
  pthread_mutex_unlock(&attr->pd->context->mutex);
  return &qp->ibv;
}

struct ibv_qp *tsr_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr) {
  (void)context;
  const uint32_t spreads = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                         IBV_QP_INIT_ATTR_CREATE_FLAGS | spreads;
  const uint32_t flags =
      attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
  const uint64_t operations =
      attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ? attr->send_ops_flags : 0;
  if (attr->comp_mask & ~known || flags & ~(uint32_t)IBV_QP_CREATE_BLOCK_SELF_MCAST_LB ||
      operations & ~TESSERA_SEND_OPS_FLAGS) {
    tsr_log("ibv_create_qp_ex: comp_mask %#x with send_ops_flags %#llx is not supported",
            attr->comp_mask, (unsigned long long)operations);
    errno = EOPNOTSUPP;
    return NULL;
  }
  if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
    errno = EINVAL;
    return NULL;
  }
  if (attr->comp_mask & spreads) return create_spreading(attr);
  /* The structure begins with the plain one. */
  return create(attr->pd, (struct ibv_qp_init_attr *)attr, flags != 0);
}

struct ibv_qp_ex *tsr_ibv_qp_to_qp_ex(struct ibv_qp *qp) { return &((struct tsr_qp *)qp)->ex; }

int tsr_ibv_destroy_qp(struct ibv_qp *ibv) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_QP_DESTROY, ibv->handle);
  if (error != 0 && !context->dead) return error;
  tsr_qp_release(qp);
  return 0;
}

void tsr_qp_release(struct tsr_qp *qp) {
  struct ibv_qp *ibv = &qp->ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  pthread_mutex_lock(&ibv->context->mutex);
  for (struct tsr_qp **link = &context->qps; *link; link = &(*link)->next) {
    if (*link != qp) continue;
    *link = qp->next;
    break;
  }
  if (qp->table) qp->table->users--;
  pthread_mutex_unlock(&ibv->context->mutex);
  forget_completions(ibv);
  munmap(qp->page, qp->page_bytes);
  free(qp);
}

static void write_attributes(const struct ibv_qp_attr *attr, tessera_hca_qp_attributes *out) {
  const struct ibv_ah_attr *path = &attr->ah_attr;
  *out = (tessera_hca_qp_attributes){.state = (uint32_t)attr->qp_state,
                                     .path_mtu = (uint32_t)attr->path_mtu,
                                     .rq_psn = attr->rq_psn,
                                     .sq_psn = attr->sq_psn,
                                     .dest_qpn = attr->dest_qp_num,
                                     /* Access flags of regions that do not apply to queue pairs. */
                                     .access = attr->qp_access_flags & ~(unsigned)TSR_PAGING_FLAGS,
                                     .flow_label = path->grh.flow_label,
                                     .pkey_index = attr->pkey_index,
                                     .dlid = path->dlid,
                                     .sgid_index = path->grh.sgid_index,
                                     .hop_limit = path->grh.hop_limit,
                                     .traffic_class = path->grh.traffic_class,
                                     .service_level = path->sl,
                                     .is_global = path->is_global,
                                     .port = attr->port_num,
                                     .max_rd_atomic = attr->max_rd_atomic,
                                     .max_dest_rd_atomic = attr->max_dest_rd_atomic,
                                     .min_rnr_timer = attr->min_rnr_timer,
                                     .timeout = attr->timeout,
                                     .retry_count = attr->retry_cnt,
                                     .rnr_retry = attr->rnr_retry,
                                     .av_port = path->port_num,
                                     .sqd_notify = attr->en_sqd_async_notify,
                                     .qkey = attr->qkey};
  memcpy(out->dgid, &path->grh.dgid, sizeof out->dgid);
}

static void read_attributes(const tessera_hca_qp_attributes *in, struct ibv_qp_attr *attr) {
  *attr = (struct ibv_qp_attr){.qp_state = (int)in->state,
                               .cur_qp_state = (int)in->state,
                               .path_mtu = (int)in->path_mtu,
                               .rq_psn = in->rq_psn,
                               .sq_psn = in->sq_psn,
                               .dest_qp_num = in->dest_qpn,
                               .qp_access_flags = in->access,
                               .pkey_index = in->pkey_index,
                               .port_num = in->port,
                               .max_rd_atomic = in->max_rd_atomic,
                               .max_dest_rd_atomic = in->max_dest_rd_atomic,
                               .min_rnr_timer = in->min_rnr_timer,
                               .timeout = in->timeout,
                               .retry_cnt = in->retry_count,
                               .rnr_retry = in->rnr_retry,
                               .qkey = in->qkey,
                               .en_sqd_async_notify = in->sqd_notify,
                               .sq_draining = in->sq_draining};
  struct ibv_ah_attr *path = &attr->ah_attr;
  path->grh.flow_label = in->flow_label;
  path->grh.sgid_index = in->sgid_index;
  path->grh.hop_limit = in->hop_limit;
  path->grh.traffic_class = in->traffic_class;
  path->dlid = in->dlid;
  path->sl = in->service_level;
  path->is_global = in->is_global;
  path->port_num = in->av_port;
  memcpy(&path->grh.dgid, in->dgid, sizeof in->dgid);
}

static int ask_attributes(struct ibv_qp *ibv, tessera_hca_qp_attributes *now) {
  const tessera_hca_handle wanted = {.handle = ibv->handle};
  const int error = tsr_ask(tsr_of(ibv->context), TESSERA_HCA_MESSAGE_QP_QUERY, &wanted,
                            sizeof wanted, now, sizeof *now, NULL);
  if (error == 0) ibv->state = (int)now->state;
  return error;
}

/* Check that a queue pair is in the state that the program states; an error may have changed it. */
static int check_current(struct ibv_qp *ibv, int state) {
  tessera_hca_qp_attributes now;
  const int error = ask_attributes(ibv, &now);
  return error ? error : ibv->state == state ? 0 : EINVAL;
}

void tsr_qp_modification(const struct ibv_qp_attr *attr, int mask, tessera_hca_qp_modify *wanted) {
  *wanted = (tessera_hca_qp_modify){.mask = (uint32_t)(mask & ~TESSERA_VERBS_MASK_CUR_STATE)};
  write_attributes(attr, &wanted->attributes);
}

void tsr_qp_apply(struct ibv_qp *ibv, const tessera_hca_qp_attributes *now) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  ibv->state = (int)now->state;
  if (now->state == TESSERA_VERBS_STATE_RESET) {
    qp->send_head = qp->recv_head = 0;
    forget_completions(ibv);
  }
}

int tsr_ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask) {
  tessera_hca_qp_modify wanted;
  if (mask & TESSERA_VERBS_MASK_CUR_STATE) {
    const int wrong = check_current(ibv, attr->cur_qp_state);
    if (wrong) return wrong;
  }
  tsr_qp_modification(attr, mask, &wanted);
  wanted.handle = ibv->handle;
  tessera_hca_qp_attributes now;
  const int error = tsr_ask(tsr_of(ibv->context), TESSERA_HCA_MESSAGE_QP_MODIFY, &wanted,
                            sizeof wanted, &now, sizeof now, NULL);
  if (error == 0) tsr_qp_apply(ibv, &now);
  return error;
}

int tsr_ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
                     struct ibv_qp_init_attr *init) {
  (void)mask; /* the attributes to return at least; all are returned */
  const struct tsr_qp *qp = (const struct tsr_qp *)ibv;
  tessera_hca_qp_attributes now;
  const int error = ask_attributes(ibv, &now);
  if (error != 0) return error;
  read_attributes(&now, attr);
  attr->cap = qp->cap;
  *init = (struct ibv_qp_init_attr){.qp_context = ibv->qp_context,
                                    .send_cq = ibv->send_cq,
                                    .recv_cq = ibv->recv_cq,
                                    .srq = ibv->srq,
                                    .cap = qp->cap,
                                    .qp_type = ibv->qp_type,
                                    .sq_sig_all = qp->signal_all};
  return 0;
}

/* Return 0: a write is copied from its lowest address up, but that order is not guaranteed. */
int tsr_ibv_query_qp_data_in_order(struct ibv_qp *qp, int opcode, uint32_t flags) {
  (void)qp, (void)opcode, (void)flags;
  return 0;
}
