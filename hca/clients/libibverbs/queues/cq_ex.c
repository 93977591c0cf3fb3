/* Extended completion queues: entries are read one by one, in place. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "api.h"
#include "command/command.h"
#include "log.h"
#include "verbs_calls.h"

/* Make the next entry the current one; ENOENT: there is none. The caller holds `polling`. */
static int show(struct tsr_cq *cq) {
  const uint32_t head = __atomic_load_n(&cq->page->head, __ATOMIC_ACQUIRE);
  while (cq->tail != head && cq->entries[cq->tail & (cq->count - 1)].qpn == TSR_NO_QPN) cq->tail++;
  if (cq->tail == head) return ENOENT;
  cq->current = &cq->entries[cq->tail & (cq->count - 1)];
  cq->ex.status = (int)cq->current->status;
  cq->ex.wr_id = cq->current->id;
  return 0;
}

static int start_poll(struct ibv_cq_ex *ex, void *attr) {
  struct tsr_cq *cq = (struct tsr_cq *)ex;
  if (attr && *(const uint32_t *)attr != 0) return EINVAL; /* its comp_mask */
  struct ibv_wc none;
  pthread_mutex_lock(&cq->polling);
  const int empty = show(cq);
  if (!empty) return 0;
  pthread_mutex_unlock(&cq->polling);
  /* A poll for zero entries also yields the CPU, and detects that hcad has gone. */
  return tsr_poll_cq(&cq->ibv, 0, &none) < 0 ? EIO : ENOENT;
}

static int next_poll(struct ibv_cq_ex *ex) {
  struct tsr_cq *cq = (struct tsr_cq *)ex;
  if (cq->current) cq->tail++;
  cq->current = NULL;
  return show(cq);
}

static void end_poll(struct ibv_cq_ex *ex) {
  struct tsr_cq *cq = (struct tsr_cq *)ex;
  if (cq->current) cq->tail++;
  cq->current = NULL;
  __atomic_store_n(&cq->page->tail, cq->tail, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&cq->polling);
}

static const tessera_hca_cqe *current(struct ibv_cq_ex *ex) {
  return ((struct tsr_cq *)ex)->current;
}

static int read_opcode(struct ibv_cq_ex *ex) { return (int)current(ex)->opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return current(ex)->vendor_error; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return current(ex)->bytes; }
static uint32_t read_imm_data(struct ibv_cq_ex *ex) { return current(ex)->immediate; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return current(ex)->qpn; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return current(ex)->source_qpn; }
static unsigned read_wc_flags(struct ibv_cq_ex *ex) { return current(ex)->flags; }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return current(ex)->service_level; }

static uint32_t read_slid(struct ibv_cq_ex *ex) {
  (void)ex; /* Ethernet has no LIDs */
  return 0;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) {
  (void)ex;
  return 0;
}

/* The device's clock counts nanoseconds. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return current(ex)->timestamp; }

static int64_t nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex) {
  const int64_t offset = nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_MONOTONIC);
  return current(ex)->timestamp + (uint64_t)offset;
}

static void set_readers(struct ibv_cq_ex *ex) {
  ex->start_poll = start_poll;
  ex->next_poll = next_poll;
  ex->end_poll = end_poll;
  ex->read_opcode = read_opcode;
  ex->read_vendor_err = read_vendor_err;
  ex->read_byte_len = read_byte_len;
  ex->read_imm_data = read_imm_data;
  ex->read_qp_num = read_qp_num;
  ex->read_src_qp = read_src_qp;
  ex->read_wc_flags = read_wc_flags;
  ex->read_slid = read_slid;
  ex->read_sl = read_sl;
  ex->read_dlid_path_bits = read_dlid_path_bits;
  ex->read_completion_ts = read_completion_ts;
  ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}

struct ibv_cq_ex *tsr_create_cq_ex(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr) {
  const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                         IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
  if (attr->wc_flags & ~known || attr->comp_mask & ~masks ||
      flags & ~(unsigned)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) {
    tsr_log("ibv_create_cq_ex: wc_flags %#llx with flags %#x is not supported",
            (unsigned long long)attr->wc_flags, flags);
    errno = EOPNOTSUPP;
    return NULL;
  }
  if (attr->cqe > INT_MAX || attr->comp_vector > INT_MAX) {
    errno = EINVAL;
    return NULL;
  }
  struct ibv_cq *cq =
      tsr_ibv_create_cq(ibv, (int)attr->cqe, attr->cq_context, attr->channel,
                        (int)attr->comp_vector);
  if (!cq) return NULL;
  set_readers(&((struct tsr_cq *)cq)->ex);
  return &((struct tsr_cq *)cq)->ex;
}

int tsr_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values) {
  (void)context;
  if (values->comp_mask & ~(unsigned)IBV_VALUES_MASK_RAW_CLOCK) return EINVAL;
  if (!(values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK)) return 0;
  return clock_gettime(CLOCK_MONOTONIC, &values->raw_clock) == 0 ? 0 : errno;
}
