/* A queue pair's turn: its next requests, executed on the memory of both ends.
 *
 * A request is copied out of the ring once, then checked, and its addresses are looked up again for
 * each part that is copied: a region may go away in between. */
#define _GNU_SOURCE
#include <string.h>

#include "clock.h"
#include "internal.h"

enum {
  TURN_BYTES = 1 << 20,
  TURN_REQUESTS = 64,
  RETRIES_WITHOUT_END = 7, /* rnr_retry */
};

enum step { STEP_DONE, STEP_AGAIN, STEP_WAIT, STEP_FAILED };

/* InfiniBand Architecture Specification volume 1, "RNR NAK timer field": microseconds. */
static const uint32_t RNR_US[32] = {655360, 10,    20,    30,    40,    60,    80,     120,
                                    160,    240,   320,   480,   640,   960,   1280,   1920,
                                    2560,   3840,  5120,  7680,  10240, 15360, 20480,  30720,
                                    40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

static const uint32_t DONE_AS[] = {
    [TESSERA_VERBS_OPCODE_RDMA_WRITE] = TESSERA_VERBS_DONE_RDMA_WRITE,
    [TESSERA_VERBS_OPCODE_RDMA_WRITE_WITH_IMM] = TESSERA_VERBS_DONE_RDMA_WRITE,
    [TESSERA_VERBS_OPCODE_SEND] = TESSERA_VERBS_DONE_SEND,
    [TESSERA_VERBS_OPCODE_SEND_WITH_IMM] = TESSERA_VERBS_DONE_SEND,
    [TESSERA_VERBS_OPCODE_RDMA_READ] = TESSERA_VERBS_DONE_RDMA_READ,
};

static bool is_send(uint32_t opcode) {
  return opcode == TESSERA_VERBS_OPCODE_SEND || opcode == TESSERA_VERBS_OPCODE_SEND_WITH_IMM;
}

static bool has_immediate(uint32_t opcode) {
  return opcode == TESSERA_VERBS_OPCODE_SEND_WITH_IMM ||
         opcode == TESSERA_VERBS_OPCODE_RDMA_WRITE_WITH_IMM;
}

static bool is_read(uint32_t opcode) { return opcode == TESSERA_VERBS_OPCODE_RDMA_READ; }

static bool takes_receive(uint32_t opcode) { return is_send(opcode) || has_immediate(opcode); }

static bool has_gid(const struct hca_client *client, const uint8_t *gid) {
  for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++)
    if (memcmp(client->gids[i], gid, sizeof client->gids[i]) == 0) return true;
  return false;
}

struct hca_qp *hca_peer(struct hca *hca, const struct hca_qp *qp) {
  struct hca_qp *peer = hca_table_get(&hca->qps, qp->attributes.dest_qpn);
  if (!peer || peer->attributes.dest_qpn != qp->number) return NULL;
  const uint32_t state = peer->attributes.state;
  if (state != TESSERA_VERBS_STATE_RTR && state != TESSERA_VERBS_STATE_RTS) return NULL;
  if (peer->attributes.rq_psn != qp->attributes.sq_psn) return NULL;
  if (!has_gid(peer->client, qp->attributes.dgid)) return NULL;
  return has_gid(qp->client, peer->attributes.dgid) ? peer : NULL;
}

void hca_fail(struct hca *hca, struct hca_qp *qp) {
  qp->attributes.state = TESSERA_VERBS_STATE_ERR;
  qp->work.active = false;
  hca_wait_end(hca, qp);
  hca_enqueue(hca, qp); /* to flush what is posted */
}

/* Puts a completion into a queue of `qp`; where there is no room the queue pair fails. */
static void complete(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, tessera_hca_cqe entry,
                     bool solicited) {
  entry.qpn = qp->number;
  if (hca_complete(cq, &entry, solicited)) return;
  if (qp->attributes.state == TESSERA_VERBS_STATE_ERR) return;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

static void end_send(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  const tessera_hca_send_slot *send = &qp->work.send;
  qp->work.active = false;
  qp->waits = 0;
  __atomic_store_n(&qp->page->send_tail, ++qp->send_tail, __ATOMIC_RELEASE);
  const bool wanted = qp->signal_all || (send->flags & TESSERA_VERBS_SEND_SIGNALED);
  if (status == TESSERA_VERBS_STATUS_SUCCESS && !wanted) return;
  const uint32_t known = send->opcode < sizeof DONE_AS / sizeof *DONE_AS ? send->opcode : 0;
  complete(hca, qp, qp->send_cq,
           (tessera_hca_cqe){.id = send->id,
                             .status = status,
                             .opcode = DONE_AS[known],
                             .bytes = qp->work.bytes},
           false);
}

static enum step fail_send(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  end_send(hca, qp, status);
  hca_fail(hca, qp);
  return STEP_FAILED;
}

/* Ends the peer's receive request that `qp` is at. */
static void end_receive(struct hca *hca, struct hca_qp *peer, const struct hca_qp *qp,
                        uint32_t status) {
  const struct hca_work *work = &qp->work;
  __atomic_store_n(&peer->page->recv_tail, ++peer->recv_tail, __ATOMIC_RELEASE);
  const bool immediate = has_immediate(work->send.opcode);
  complete(hca, peer, peer->recv_cq,
           (tessera_hca_cqe){.id = work->recv.id,
                             .status = status,
                             .opcode = is_send(work->send.opcode)
                                           ? TESSERA_VERBS_DONE_RECV
                                           : TESSERA_VERBS_DONE_RECV_RDMA_WITH_IMM,
                             .bytes = work->bytes,
                             .immediate = immediate ? work->send.immediate : 0,
                             .source_qpn = qp->number,
                             .flags = immediate ? TESSERA_VERBS_WC_FLAG_WITH_IMM : 0},
           work->send.flags & TESSERA_VERBS_SEND_SOLICITED);
}

/* What the responder refuses ends both ends: there as an event or a receive, here as a status. */
static enum step refuse(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, uint32_t event,
                        uint32_t status) {
  hca_event(peer->client, event, peer->number);
  hca_fail(hca, peer);
  return fail_send(hca, qp, status);
}

static enum step refuse_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                                uint32_t there, uint32_t here) {
  end_receive(hca, peer, qp, there);
  hca_fail(hca, peer);
  return fail_send(hca, qp, here);
}

static uint64_t sum(const tessera_hca_sge *sges, unsigned count) {
  uint64_t bytes = 0;
  for (unsigned i = 0; i < count; i++) bytes += sges[i].bytes;
  return bytes;
}

static bool all_valid(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                      unsigned count, uint32_t access) {
  for (unsigned i = 0; i < count; i++) {
    if (sges[i].bytes == 0) continue;
    if (!hca_region_of(hca, qp, sges[i].lkey, sges[i].address, sges[i].bytes, access)) return false;
  }
  return true;
}

/* Whether the time has not come that was waited for: something else has woken the queue pair. */
static bool waits_still(struct hca_qp *qp, enum hca_wait why, uint64_t now_ns) {
  if (qp->waiting == why) return now_ns < qp->wake_ns;
  qp->waits = 0;
  return false;
}

static enum step wait_for_peer(struct hca *hca, struct hca_qp *qp) {
  const tessera_hca_qp_attributes *own = &qp->attributes;
  const uint64_t now_ns = hca_now_ns();
  if (waits_still(qp, HCA_WAIT_PEER, now_ns)) return STEP_WAIT;
  if (own->timeout != 0 && qp->waits++ > own->retry_count)
    return fail_send(hca, qp, TESSERA_VERBS_STATUS_RETRY_EXC_ERR);
  /* Without a time-out nothing is ever sent again on a wire; here somebody looks now and then. */
  const unsigned exponent = own->timeout ? own->timeout : 14;
  hca_wait_until(hca, qp, HCA_WAIT_PEER, now_ns + (UINT64_C(4096) << exponent));
  return STEP_WAIT;
}

static enum step wait_for_receive(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer) {
  const uint64_t now_ns = hca_now_ns();
  if (waits_still(qp, HCA_WAIT_RECEIVE, now_ns)) return STEP_WAIT;
  const uint8_t limit = qp->attributes.rnr_retry;
  if (limit != RETRIES_WITHOUT_END && qp->waits++ >= limit)
    return fail_send(hca, qp, TESSERA_VERBS_STATUS_RNR_RETRY_EXC_ERR);
  const uint64_t pause_ns = RNR_US[peer->attributes.min_rnr_timer & 31] * UINT64_C(1000);
  hca_wait_until(hca, qp, HCA_WAIT_RECEIVE, now_ns + pause_ns);
  return STEP_WAIT;
}

static void broken(struct hca *hca, struct hca_qp *qp) {
  qp->broken = true;
  hca_event(qp->client, TESSERA_VERBS_EVENT_QP_FATAL, qp->number);
  hca_fail(hca, qp);
}

/* How many requests lie in a ring; a head that makes no sense ends the queue pair. */
static uint32_t pending(struct hca *hca, struct hca_qp *qp, const uint32_t *head, uint32_t tail,
                        uint32_t room) {
  if (qp->broken) return 0;
  const uint32_t count = __atomic_load_n(head, __ATOMIC_ACQUIRE) - tail;
  if (count <= room) return count;
  broken(hca, qp);
  return 0;
}

/* Checks what the requester alone is to blame for. */
static uint32_t check_local(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  tessera_hca_send_slot *send = &work->send;
  if (send->opcode > TESSERA_VERBS_OPCODE_RDMA_READ) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
  uint64_t bytes;
  if (send->flags & TESSERA_VERBS_SEND_INLINE) {
    if (is_read(send->opcode)) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    bytes = send->inline_bytes;
    if (bytes > TESSERA_HCA_MAX_INLINE_BYTES) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    send->sge_count = 0;
  } else {
    if (send->sge_count > TESSERA_HCA_MAX_SGE) return TESSERA_VERBS_STATUS_LOC_QP_OP_ERR;
    bytes = sum(send->payload.sges, send->sge_count);
    if (bytes > TESSERA_HCA_MAX_MESSAGE_BYTES) return TESSERA_VERBS_STATUS_LOC_LEN_ERR;
    const uint32_t access = is_read(send->opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
    if (!all_valid(hca, qp, send->payload.sges, send->sge_count, access))
      return TESSERA_VERBS_STATUS_LOC_PROT_ERR;
  }
  work->bytes = (uint32_t)bytes;
  work->local = (struct hca_cursor){send->payload.sges, send->sge_count, 0, 0};
  return TESSERA_VERBS_STATUS_SUCCESS;
}

static uint32_t remote_access(uint32_t opcode) {
  return is_read(opcode) ? TESSERA_VERBS_ACCESS_REMOTE_READ : TESSERA_VERBS_ACCESS_REMOTE_WRITE;
}

static bool remote_valid(struct hca *hca, const struct hca_qp *peer, const struct hca_work *work) {
  const tessera_hca_send_slot *send = &work->send;
  const uint32_t access = remote_access(send->opcode);
  if ((peer->attributes.access & access) == 0) return false;
  if (work->bytes == 0) return true;
  return hca_region_of(hca, peer, send->remote_key, send->remote_address, work->bytes, access);
}

/* Takes a copy of the peer's next receive request, and checks it. */
static enum step take_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  struct hca_work *work = &qp->work;
  if (pending(hca, peer, &peer->page->recv_head, peer->recv_tail, peer->recv_count) == 0)
    return peer->broken ? wait_for_peer(hca, qp) : wait_for_receive(hca, qp, peer);
  work->recv = peer->recv_slots[peer->recv_tail & (peer->recv_count - 1)];
  work->receives = true;
  tessera_hca_recv_slot *recv = &work->recv;
  if (recv->sge_count > TESSERA_HCA_MAX_SGE)
    return refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_QP_OP_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  if (!is_send(work->send.opcode)) return STEP_AGAIN; /* the immediate needs no memory */
  if (sum(recv->sges, recv->sge_count) < work->bytes)
    return refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_LEN_ERR,
                          TESSERA_VERBS_STATUS_REM_INV_REQ_ERR);
  if (!all_valid(hca, peer, recv->sges, recv->sge_count, TESSERA_VERBS_ACCESS_LOCAL_WRITE))
    return refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_PROT_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  work->remote = (struct hca_cursor){recv->sges, recv->sge_count, 0, 0};
  return STEP_AGAIN;
}

/* Begins the next request, or goes on waiting with it. */
static enum step begin(struct hca *hca, struct hca_qp *qp) {
  struct hca_work *work = &qp->work;
  if (!work->active) {
    if (pending(hca, qp, &qp->page->send_head, qp->send_tail, qp->send_count) == 0)
      return STEP_DONE;
    work->send = qp->send_slots[qp->send_tail & (qp->send_count - 1)];
    work->bytes = work->done = 0;
    work->receives = false;
    const uint32_t status = check_local(hca, qp);
    if (status != TESSERA_VERBS_STATUS_SUCCESS) return fail_send(hca, qp, status);
    work->active = true;
  }
  struct hca_qp *peer = hca_peer(hca, qp);
  if (!peer) return wait_for_peer(hca, qp);
  if (!is_send(work->send.opcode)) {
    if (!remote_valid(hca, peer, work))
      return refuse(hca, qp, peer, TESSERA_VERBS_EVENT_QP_ACCESS_ERR,
                    TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
  }
  if (takes_receive(work->send.opcode) && !work->receives) {
    const enum step step = take_receive(hca, qp, peer);
    if (step != STEP_AGAIN) return step;
  }
  hca_wait_end(hca, qp);
  return STEP_AGAIN;
}

/* The memory under a cursor; NULL where a region went away. Empty elements are passed over. */
static uint8_t *under(struct hca *hca, const struct hca_qp *qp, struct hca_cursor *cursor,
                      uint32_t access, uint64_t *bytes) {
  while (cursor->index < cursor->count && cursor->offset == cursor->sges[cursor->index].bytes) {
    cursor->index++;
    cursor->offset = 0;
  }
  if (cursor->index >= cursor->count) return NULL;
  const tessera_hca_sge *sge = &cursor->sges[cursor->index];
  const uint64_t address = sge->address + cursor->offset;
  const uint32_t left = sge->bytes - cursor->offset;
  const struct hca_region *region = hca_region_of(hca, qp, sge->lkey, address, left, access);
  if (!region) return NULL;
  uint8_t *memory = hca_region_at(region, address, bytes);
  if (*bytes > left) *bytes = left;
  return memory;
}

static uint8_t *local_memory(struct hca *hca, struct hca_qp *qp, uint64_t *bytes) {
  struct hca_work *work = &qp->work;
  if (work->send.flags & TESSERA_VERBS_SEND_INLINE) {
    *bytes = work->bytes - work->done;
    return work->send.payload.data + work->done;
  }
  const uint32_t access =
      is_read(work->send.opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
  return under(hca, qp, &work->local, access, bytes);
}

static uint8_t *remote_memory(struct hca *hca, struct hca_qp *peer, struct hca_work *work,
                              uint64_t *bytes) {
  const tessera_hca_send_slot *send = &work->send;
  if (is_send(send->opcode))
    return under(hca, peer, &work->remote, TESSERA_VERBS_ACCESS_LOCAL_WRITE, bytes);
  const uint64_t address = send->remote_address + work->done;
  const uint32_t left = work->bytes - work->done;
  const struct hca_region *region =
      hca_region_of(hca, peer, send->remote_key, address, left, remote_access(send->opcode));
  if (!region) return NULL;
  uint8_t *memory = hca_region_at(region, address, bytes);
  if (*bytes > left) *bytes = left;
  return memory;
}

/* The responder's memory went away under a request that had been accepted. */
static enum step lose_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer) {
  if (is_send(qp->work.send.opcode))
    return refuse_receive(hca, qp, peer, TESSERA_VERBS_STATUS_LOC_PROT_ERR,
                          TESSERA_VERBS_STATUS_REM_OP_ERR);
  return refuse(hca, qp, peer, TESSERA_VERBS_EVENT_QP_ACCESS_ERR,
                TESSERA_VERBS_STATUS_REM_ACCESS_ERR);
}

/* A copy met a hole in the file behind a region: reads one byte of each side to tell whose. */
static enum step lose_either(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                             const uint8_t *local, uint64_t bytes) {
  uint8_t byte;
  bool local_there = true;
  for (uint64_t at = 0; at < bytes && local_there; at += TESSERA_HCA_PAGE_BYTES)
    local_there = hca_copy(&byte, local + at, 1);
  if (local_there) local_there = hca_copy(&byte, local + bytes - 1, 1);
  return local_there ? lose_remote(hca, qp, peer)
                     : fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
}

/* Copies at most `*budget` bytes of the request; STEP_DONE when it is complete. */
static enum step move(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, uint64_t *budget) {
  struct hca_work *work = &qp->work;
  while (work->done < work->bytes) {
    if (*budget == 0) return STEP_AGAIN;
    uint64_t here_bytes = 0, there_bytes = 0;
    uint8_t *here = local_memory(hca, qp, &here_bytes);
    if (!here) return fail_send(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
    uint8_t *there = remote_memory(hca, peer, work, &there_bytes);
    if (!there) return lose_remote(hca, qp, peer);
    uint64_t bytes = here_bytes < there_bytes ? here_bytes : there_bytes;
    if (bytes > *budget) bytes = *budget;
    const bool reading = is_read(work->send.opcode);
    if (!hca_copy(reading ? here : there, reading ? there : here, bytes))
      return lose_either(hca, qp, peer, here, bytes);
    work->done += (uint32_t)bytes;
    work->local.offset += (uint32_t)bytes;
    work->remote.offset += (uint32_t)bytes;
    *budget -= bytes;
  }
  return STEP_DONE;
}

static void flush(struct hca *hca, struct hca_qp *qp) {
  const uint32_t sends =
      pending(hca, qp, &qp->page->send_head, qp->send_tail, qp->send_count);
  for (uint32_t i = 0; i < sends; i++) {
    const uint64_t id = qp->send_slots[qp->send_tail & (qp->send_count - 1)].id;
    __atomic_store_n(&qp->page->send_tail, ++qp->send_tail, __ATOMIC_RELEASE);
    complete(hca, qp, qp->send_cq,
             (tessera_hca_cqe){.id = id, .status = TESSERA_VERBS_STATUS_WR_FLUSH_ERR}, false);
  }
  const uint32_t receives =
      pending(hca, qp, &qp->page->recv_head, qp->recv_tail, qp->recv_count);
  for (uint32_t i = 0; i < receives; i++) {
    const uint64_t id = qp->recv_slots[qp->recv_tail & (qp->recv_count - 1)].id;
    __atomic_store_n(&qp->page->recv_tail, ++qp->recv_tail, __ATOMIC_RELEASE);
    complete(hca, qp, qp->recv_cq,
             (tessera_hca_cqe){.id = id,
                               .status = TESSERA_VERBS_STATUS_WR_FLUSH_ERR,
                               .opcode = TESSERA_VERBS_DONE_RECV},
             false);
  }
}

/* Whoever waits for a receive request of `qp` may go on now. */
static void wake_requester(struct hca *hca, struct hca_qp *qp) {
  struct hca_qp *requester = hca_table_get(&hca->qps, qp->attributes.dest_qpn);
  if (requester && requester->waiting == HCA_WAIT_RECEIVE && hca_peer(hca, requester) == qp)
    hca_enqueue(hca, requester);
}

static enum step advance(struct hca *hca, struct hca_qp *qp, uint64_t *budget) {
  enum step step = begin(hca, qp);
  if (step != STEP_AGAIN) return step;
  struct hca_qp *peer = hca_peer(hca, qp); /* begin() has found it */
  step = move(hca, qp, peer, budget);
  if (step != STEP_DONE) return step;
  if (qp->work.receives) end_receive(hca, peer, qp, TESSERA_VERBS_STATUS_SUCCESS);
  end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return STEP_AGAIN;
}

bool hca_turn(struct hca *hca, struct hca_qp *qp) {
  wake_requester(hca, qp);
  uint64_t budget = TURN_BYTES;
  for (unsigned i = 0; i < TURN_REQUESTS; i++) {
    const uint32_t state = qp->attributes.state;
    if (state == TESSERA_VERBS_STATE_ERR) {
      flush(hca, qp);
      return false;
    }
    if (qp->wired) return hca_wire_turn(hca, qp);
    if (state != TESSERA_VERBS_STATE_RTS) {
      hca_wait_end(hca, qp);
      return false;
    }
    const enum step step = advance(hca, qp, &budget);
    if (step == STEP_DONE || step == STEP_WAIT) return false;
    if (budget == 0) return true;
  }
  return true;
}

uint32_t hca_work_check(struct hca *hca, struct hca_qp *qp) { return check_local(hca, qp); }

void hca_work_end(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  end_send(hca, qp, status);
}

void hca_work_fail(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  fail_send(hca, qp, status);
}

void hca_work_complete(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, tessera_hca_cqe entry,
                       bool solicited) {
  complete(hca, qp, cq, entry, solicited);
}

uint32_t hca_work_pending(struct hca *hca, struct hca_qp *qp, const uint32_t *head, uint32_t tail,
                          uint32_t room) {
  return pending(hca, qp, head, tail, room);
}

bool hca_work_valid(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                    unsigned count, uint32_t access) {
  return all_valid(hca, qp, sges, count, access);
}

uint64_t hca_work_sum(const tessera_hca_sge *sges, unsigned count) { return sum(sges, count); }

uint64_t hca_work_pause_ns(unsigned rnr_timer) { return RNR_US[rnr_timer & 31] * UINT64_C(1000); }
