/* Requests built by calls: ibv_wr_start() ... ibv_wr_complete(). */
#include <errno.h>
#include <string.h>

#include "posting/post.h"
#include "unsupported.h"
#include "verbs_calls.h"

static struct tsr_qp *of(struct ibv_qp_ex *ex) { return (struct tsr_qp *)ex; }

static void start(struct ibv_qp_ex *ex) {
  struct tsr_qp *qp = of(ex);
  pthread_mutex_lock(&qp->sending);
  qp->building_head = qp->send_head;
  qp->building_error = tsr_may_send(qp) ? 0 : EINVAL;
}

static int complete(struct ibv_qp_ex *ex) {
  struct tsr_qp *qp = of(ex);
  const int error = qp->building_error;
  if (error == 0) tsr_send_publish(qp, qp->building_head);
  pthread_mutex_unlock(&qp->sending);
  return error;
}

static void drop(struct ibv_qp_ex *ex) { pthread_mutex_unlock(&of(ex)->sending); }

/* The request being built; NULL after an error. */
static tessera_hca_send_slot *current(struct ibv_qp_ex *ex) {
  struct tsr_qp *qp = of(ex);
  if (qp->building_error != 0 || qp->building_head == qp->send_head) return NULL;
  return tsr_send_slot(qp, qp->building_head - 1);
}

static void begin(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t key, uint64_t remote,
                  uint32_t immediate) {
  struct tsr_qp *qp = of(ex);
  if (qp->building_error != 0) return;
  tessera_hca_send_slot *slot = tsr_send_slot(qp, qp->building_head);
  if (!slot) {
    qp->building_error = ENOMEM;
    return;
  }
  qp->building_head++;
  slot->id = ex->wr_id;
  slot->remote_address = remote;
  slot->remote_key = key;
  slot->immediate = immediate;
  slot->opcode = opcode;
  slot->flags = ex->wr_flags & ~(uint32_t)TESSERA_VERBS_SEND_INLINE;
  slot->sge_count = slot->inline_bytes = 0;
  slot->address_handle = slot->remote_qpn = 0;
}

static void rdma_read(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote) {
  begin(ex, TESSERA_VERBS_OPCODE_RDMA_READ, key, remote, 0);
}

static void rdma_write(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote) {
  begin(ex, TESSERA_VERBS_OPCODE_RDMA_WRITE, key, remote, 0);
}

static void rdma_write_imm(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote, uint32_t imm) {
  begin(ex, TESSERA_VERBS_OPCODE_RDMA_WRITE_WITH_IMM, key, remote, imm);
}

static void post(struct ibv_qp_ex *ex) { begin(ex, TESSERA_VERBS_OPCODE_SEND, 0, 0, 0); }

static void post_imm(struct ibv_qp_ex *ex, uint32_t imm) {
  begin(ex, TESSERA_VERBS_OPCODE_SEND_WITH_IMM, 0, 0, imm);
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_sge *list) {
  tessera_hca_send_slot *slot = current(ex);
  if (!slot) return;
  if (count > TESSERA_HCA_MAX_SGE) {
    of(ex)->building_error = EINVAL;
    return;
  }
  slot->sge_count = (uint32_t)count;
  of(ex)->building_error =
      tsr_fill_sges(tsr_of(ex->qp_base.context), slot->payload.sges, list, count);
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length) {
  set_sge_list(ex, 1, &(struct ibv_sge){.addr = addr, .length = length, .lkey = lkey});
}

static void set_inline_list(struct ibv_qp_ex *ex, size_t count, const struct ibv_data_buf *list) {
  tessera_hca_send_slot *slot = current(ex);
  if (!slot) return;
  slot->flags |= TESSERA_VERBS_SEND_INLINE;
  slot->inline_bytes = 0;
  for (size_t i = 0; i < count && of(ex)->building_error == 0; i++)
    of(ex)->building_error = tsr_append_inline(slot, list[i].addr, list[i].length);
}

static void set_inline(struct ibv_qp_ex *ex, void *addr, size_t length) {
  set_inline_list(ex, 1, &(struct ibv_data_buf){.addr = addr, .length = length});
}

static void post_inv(struct ibv_qp_ex *ex, uint32_t key) {
  begin(ex, TESSERA_VERBS_OPCODE_SEND_WITH_INV, 0, 0, key);
}

static void local_inv(struct ibv_qp_ex *ex, uint32_t key) {
  begin(ex, TESSERA_VERBS_OPCODE_LOCAL_INV, 0, 0, key);
}

static void begin_atomic(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t key, uint64_t remote,
                         uint64_t compare_add, uint64_t swap) {
  begin(ex, opcode, key, remote, 0);
  tessera_hca_send_slot *slot = current(ex);
  if (!slot) return;
  slot->compare_add = compare_add;
  slot->swap = swap;
}

static void compare_and_swap(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote, uint64_t compare,
                             uint64_t swap) {
  begin_atomic(ex, TESSERA_VERBS_OPCODE_ATOMIC_CMP_AND_SWP, key, remote, compare, swap);
}

static void fetch_and_add(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote, uint64_t add) {
  begin_atomic(ex, TESSERA_VERBS_OPCODE_ATOMIC_FETCH_AND_ADD, key, remote, add, 0);
}

static void bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t key,
                    const struct ibv_mw_bind_info *info) {
  if (mw->type != TESSERA_VERBS_MW_TYPE_TYPE_2) {
    of(ex)->building_error = EINVAL;
    return;
  }
  begin(ex, TESSERA_VERBS_OPCODE_BIND_MW, 0, 0, 0);
  tessera_hca_send_slot *slot = current(ex);
  if (slot) tsr_fill_bind(slot, mw, key, info);
}

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey) {
  tessera_hca_send_slot *slot = current(ex);
  if (!slot) return;
  slot->address_handle = ah->handle;
  slot->remote_qpn = qpn;
  slot->remote_key = qkey;
}

static void refuse(struct ibv_qp_ex *ex, const char *what, uint32_t *said) {
  tsr_unsupported(what, "EOPNOTSUPP", said);
  of(ex)->building_error = EOPNOTSUPP;
}

static void send_tso(struct ibv_qp_ex *ex, void *header, uint16_t bytes, uint16_t mss) {
  (void)header, (void)bytes, (void)mss;
  static uint32_t said;
  refuse(ex, "ibv_wr_send_tso", &said);
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t number) {
  (void)number;
  static uint32_t said;
  refuse(ex, "ibv_wr_set_xrc_srqn", &said);
}

static void atomic_write(struct ibv_qp_ex *ex, uint32_t key, uint64_t remote, const void *data) {
  uint64_t value;
  memcpy(&value, data, sizeof value);
  begin_atomic(ex, TESSERA_VERBS_OPCODE_ATOMIC_WRITE, key, remote, value, 0);
}

void tsr_set_builder(struct ibv_qp_ex *ex) {
  ex->wr_start = start;
  ex->wr_complete = complete;
  ex->wr_abort = drop;
  ex->wr_rdma_read = rdma_read;
  ex->wr_rdma_write = rdma_write;
  ex->wr_rdma_write_imm = rdma_write_imm;
  ex->wr_send = post;
  ex->wr_send_imm = post_imm;
  ex->wr_set_sge = set_sge;
  ex->wr_set_sge_list = set_sge_list;
  ex->wr_set_inline_data = set_inline;
  ex->wr_set_inline_data_list = set_inline_list;
  ex->wr_atomic_cmp_swp = compare_and_swap;
  ex->wr_atomic_fetch_add = fetch_and_add;
  ex->wr_bind_mw = bind_mw;
  ex->wr_local_inv = local_inv;
  ex->wr_send_inv = post_inv;
  ex->wr_send_tso = send_tso;
  ex->wr_set_ud_addr = set_ud_addr;
  ex->wr_set_xrc_srqn = set_xrc_srqn;
  ex->wr_atomic_write = atomic_write;
}
