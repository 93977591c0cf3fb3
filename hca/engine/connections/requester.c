/* The requester of a reliable connection: requests in flight, acknowledgements and
 * retransmission.
 *
 * A request gets its PSNs when it is taken out of the ring. Sending continues from `next_psn`;
 * any failure sets it back to the oldest unacknowledged PSN (go-back-N). A READ uses one PSN for
 * each packet of its response, and is requested in parts that fit the window. */
#define _GNU_SOURCE
#include <string.h>

#include "base/clock.h"
#include "wire/wire.h"
#include "requests/work.h"

enum {
  LEAST_WINDOW = 4,
  QUICK_REFUSALS = 4,         /* without progress; then only the timeout retransmits */
  RETRIES_WITHOUT_END = 7,    /* rnr_retry value */
  FULL_PAUSE_NS = 100000,     /* wait while the socket buffer is full */
  LEAST_TIMEOUT_NS = 1000000, /* the delay of an engine that waits for a CPU is not a packet loss */
  EXPONENT_WITHOUT_TIMEOUT = 14,
};

static uint32_t end_of(const struct wire_request *request) {
  return wire_psn_add(request->first_psn, request->packets);
}

/* Whether requests in flight may complete. */
static bool may_end(const struct hca_qp *qp) {
  const uint32_t state = qp->attributes.state;
  return state == TESSERA_VERBS_STATE_RTS || state == TESSERA_VERBS_STATE_SQD;
}

static uint64_t timeout_ns(const struct hca_qp *qp) {
  const unsigned exponent = qp->attributes.timeout;
  const uint64_t wanted_ns = UINT64_C(4096) << (exponent ? exponent : EXPONENT_WITHOUT_TIMEOUT);
  return wanted_ns < LEAST_TIMEOUT_NS ? LEAST_TIMEOUT_NS : wanted_ns;
}

void wire_requester_begin(struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  const uint32_t mtu = qp->wired->mtu;
  memset(requester, 0, sizeof *requester);
  requester->free_psn = requester->oldest_psn = requester->next_psn = requester->top_psn =
      qp->attributes.sq_psn;
  /* The peer's engine may respond only after milliseconds, when it gets a CPU: the only connection
   * of a wire keeps many packets in flight. */
  const uint32_t there = qp->wired->wire->room_bytes / (mtu + WIRE_PACKET_COST) / 2;
  const uint32_t share = there / qp->wired->wire->pairs;
  requester->room = there < WIRE_FAIR_ROOM ? there : WIRE_FAIR_ROOM;
  if (requester->room < share) requester->room = share;
  if (requester->room > WIRE_MOST_ROOM) requester->room = WIRE_MOST_ROOM;
  if (requester->room < WIRE_LEAST_ROOM) requester->room = WIRE_LEAST_ROOM;
  requester->window = requester->room;
}

void wire_requester_resume(struct hca_qp *qp, const tessera_hca_saved_wired *saved) {
  struct wire_requester *requester = &qp->wired->requester;
  wire_requester_begin(qp);
  /* The number of connections may have changed by now, but the parts of a READ must stay the same
   * when they are repeated. */
  if (saved->room >= WIRE_LEAST_ROOM && saved->room <= WIRE_MOST_ROOM)
    requester->window = requester->room = saved->room;
  requester->free_psn = saved->first_psn;
  /* Which later packets were sent is unknown: a response to one counts only once it has been sent
   * again. */
  requester->oldest_psn = requester->next_psn = requester->top_psn = saved->oldest_psn;
}

/* Fail the oldest request, and with it the queue pair. */
static void fail(struct hca *hca, struct hca_qp *qp, uint32_t status) {
  struct wire_requester *requester = &qp->wired->requester;
  const struct wire_request *request = wire_request_at(requester, requester->tail);
  qp->work.send = request->send;
  qp->work.bytes = request->bytes;
  requester->tail = requester->sending = requester->head;
  requester->free_psn = requester->next_psn; /* an unreliable connection may continue after it */
  hca_fail_send(hca, qp, status);
}

/* Complete the oldest request; false where the completion queue was full, and the queue pair is
 * in ERR. */
static bool complete_oldest(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  const struct wire_request *request = wire_request_at(requester, requester->tail);
  qp->work.send = request->send;
  qp->work.bytes = request->bytes;
  requester->tail++;
  hca_count_done(qp->policy.out, hca_verbs_of(request->send.opcode), request->bytes);
  hca_end_send(hca, qp, TESSERA_VERBS_STATUS_SUCCESS);
  return may_end(qp);
}

/* Find the request that a PSN belongs to; a request that fails hides all later ones. */
static uint32_t find(struct wire_requester *requester, uint32_t psn) {
  uint32_t index = requester->tail;
  for (; index != requester->head; index++) {
    const struct wire_request *request = wire_request_at(requester, index);
    if (request->status != TESSERA_VERBS_STATUS_SUCCESS || wire_is_silent(request)) break;
    if (wire_psn_distance(psn, end_of(request)) < 0) break;
  }
  return index;
}

static void set_next(struct wire_requester *requester, uint32_t psn) {
  requester->next_psn = psn;
  requester->sending = find(requester, psn);
  while (requester->read_count &&
         wire_psn_distance(requester->read_ends[requester->read_count - 1], psn) > 0)
    requester->read_count--;
}

static void forget_reads(struct wire_requester *requester) {
  unsigned done = 0;
  while (done < requester->read_count &&
         wire_psn_distance(requester->read_ends[done], requester->oldest_psn) <= 0)
    done++;
  requester->read_count -= done;
  memmove(requester->read_ends, requester->read_ends + done,
          requester->read_count * sizeof *requester->read_ends);
}

/* Record progress: everything before `psn` has been answered. */
static void set_oldest(struct hca_qp *qp, uint32_t psn) {
  struct wire_requester *requester = &qp->wired->requester;
  const int32_t progress = wire_psn_distance(psn, requester->oldest_psn);
  if (progress <= 0) return;
  requester->oldest_psn = psn;
  requester->retries = requester->pauses = requester->refusals = 0;
  requester->paused = false;
  requester->answered += (uint32_t)progress;
  if (requester->answered >= requester->window && requester->window < requester->room) {
    requester->answered = 0;
    requester->window++;
  }
  if (wire_psn_distance(requester->next_psn, psn) < 0)
    set_next(requester, psn);
  else
    requester->sending = find(requester, requester->next_psn);
  forget_reads(requester);
  requester->deadline_ns =
      requester->next_psn == psn ? 0 : hca_now_ns() + timeout_ns(qp);
}

static void go_back(struct wire_requester *requester) {
  set_next(requester, requester->oldest_psn);
  requester->window /= 2;
  if (requester->window < LEAST_WINDOW) requester->window = LEAST_WINDOW;
}

/* Retransmit after a loss, reported by the peer or shown by a missing response. Packets that are
 * still in flight report the same loss again: only the first report counts. */
static void repeat(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  if (requester->next_psn == requester->oldest_psn || requester->paused) return;
  if (requester->refusals++ >= QUICK_REFUSALS) return;
  go_back(requester);
  hca_enqueue(hca, qp);
}

/* Complete the requests that the peer has executed, up to `end`. False where the queue pair has
 * failed, or where an earlier READ has no response yet. */
static bool advance(struct hca *hca, struct hca_qp *qp, uint32_t end) {
  struct wire_requester *requester = &qp->wired->requester;
  while (requester->tail != requester->head) {
    const struct wire_request *request = wire_request_at(requester, requester->tail);
    if (request->status != TESSERA_VERBS_STATUS_SUCCESS || wire_is_silent(request)) break;
    if (wire_is_answered(request)) {
      if (wire_psn_distance(request->first_psn, requester->oldest_psn) > 0 &&
          wire_psn_distance(end, request->first_psn) >= 0)
        set_oldest(qp, request->first_psn);
      if (wire_psn_distance(end, requester->oldest_psn) <= 0) break;
      if (wire_psn_distance(end, request->first_psn) <= 0) break;
      repeat(hca, qp);
      return false;
    }
    if (wire_psn_distance(end, end_of(request)) < 0) break;
    const uint32_t reached = end_of(request);
    if (!complete_oldest(hca, qp)) return false;
    set_oldest(qp, reached);
  }
  set_oldest(qp, end);
  hca_enqueue(hca, qp);
  return true;
}

/* Whether a PSN has been sent and has no response yet. */
static bool is_under_way(const struct wire_requester *requester, uint32_t psn) {
  return wire_psn_distance(psn, requester->oldest_psn) >= 0 &&
         wire_psn_distance(psn, requester->top_psn) < 0;
}

static void pause_sending(struct hca *hca, struct hca_qp *qp, unsigned code) {
  struct wire_requester *requester = &qp->wired->requester;
  if (requester->paused || requester->next_psn == requester->oldest_psn) return;
  const uint8_t limit = qp->attributes.rnr_retry;
  if (limit != RETRIES_WITHOUT_END && requester->pauses++ >= limit) {
    fail(hca, qp, TESSERA_VERBS_STATUS_RNR_RETRY_EXC_ERR);
    return;
  }
  set_next(requester, requester->oldest_psn);
  requester->paused = true;
  requester->deadline_ns = hca_now_ns() + hca_pause_ns(code);
  hca_wait_until(hca, qp, HCA_WAIT_WIRE, requester->deadline_ns);
}

static void refused(struct hca *hca, struct hca_qp *qp, unsigned reason) {
  static const uint32_t STATUS[] = {
      [WIRE_NAK_INVALID] = TESSERA_VERBS_STATUS_REM_INV_REQ_ERR,
      [WIRE_NAK_ACCESS] = TESSERA_VERBS_STATUS_REM_ACCESS_ERR,
      [WIRE_NAK_OPERATION] = TESSERA_VERBS_STATUS_REM_OP_ERR,
  };
  if (reason == WIRE_NAK_SEQUENCE)
    repeat(hca, qp);
  else if (reason < sizeof STATUS / sizeof *STATUS)
    fail(hca, qp, STATUS[reason]);
}

void wire_acknowledged(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_requester *requester = &qp->wired->requester;
  if (!may_end(qp)) return;
  if (!is_under_way(requester, packet->psn)) return;
  const unsigned value = packet->syndrome & WIRE_SYNDROME_VALUE;
  switch (packet->syndrome & WIRE_SYNDROME_KIND) {
    case 0:
      advance(hca, qp, wire_psn_add(packet->psn, 1));
      break;
    case WIRE_SYNDROME_RNR:
      if (advance(hca, qp, packet->psn)) pause_sending(hca, qp, value);
      break;
    case WIRE_SYNDROME_NAK:
      if (advance(hca, qp, packet->psn)) refused(hca, qp, value);
      break;
    default:
      break;
  }
}

void wire_read_response(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet) {
  struct wire_requester *requester = &qp->wired->requester;
  if (!may_end(qp)) return;
  if (!is_under_way(requester, packet->psn) || !advance(hca, qp, packet->psn)) return;
  if (requester->tail == requester->head) return;
  const struct wire_request *request = wire_request_at(requester, requester->tail);
  if (!wire_is_answered(request) || request->status != TESSERA_VERBS_STATUS_SUCCESS) return;
  const bool atomic = packet->form.kind == WIRE_ATOMIC_ACK;
  if (atomic == wire_is_read(request)) {
    qp->wired->wire->counts.malformed++;
    return;
  }
  const int32_t place = wire_psn_distance(packet->psn, request->first_psn);
  if (place < 0 || (uint32_t)place >= request->packets) return;
  const uint32_t offset = (uint32_t)place * qp->wired->mtu, left = request->bytes - offset;
  const uint8_t *data = atomic ? (const uint8_t *)&packet->result : packet->payload;
  const uint32_t bytes = atomic ? (uint32_t)sizeof packet->result : packet->payload_bytes;
  if (bytes != (left < qp->wired->mtu ? left : qp->wired->mtu)) {
    qp->wired->wire->counts.malformed++;
    return;
  }
  if (!wire_scatter(hca, qp, request->send.payload.sges, request->send.sge_count, offset,
                    data, bytes)) {
    fail(hca, qp, TESSERA_VERBS_STATUS_LOC_PROT_ERR);
    return;
  }
  const bool last = (uint32_t)place == request->packets - 1;
  if (last && !complete_oldest(hca, qp)) return;
  set_oldest(qp, wire_psn_add(packet->psn, 1));
  hca_enqueue(hca, qp);
}

/* Handle the timeout; false where the queue pair fails. */
static bool expire(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  requester->deadline_ns = 0;
  if (requester->paused) {
    requester->paused = false;
    return true;
  }
  if (requester->retries++ >= qp->attributes.retry_count && qp->attributes.timeout != 0) {
    fail(hca, qp, TESSERA_VERBS_STATUS_RETRY_EXC_ERR);
    return false;
  }
  qp->wired->wire->counts.timeouts++;
  requester->refusals = 0;
  go_back(requester);
  return true;
}

/* Whether the oldest request cannot continue; it then fails. */
static bool has_failed(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  if (requester->tail == requester->head) return false;
  const uint32_t status = wire_request_at(requester, requester->tail)->status;
  if (status == TESSERA_VERBS_STATUS_SUCCESS) return false;
  fail(hca, qp, status);
  return true;
}

static bool send_some(struct hca *hca, struct hca_qp *qp, uint64_t now_ns) {
  struct wire_requester *requester = &qp->wired->requester;
  uint32_t psns[WIRE_BATCH];
  unsigned made = 0;
  while (made < WIRE_BATCH && (made == 0 || wire_has_credit(hca))) {
    if (wire_pace_holds(hca, qp)) break;
    psns[made] = requester->next_psn;
    const uint32_t packets = wire_make_next(hca, qp);
    if (packets == 0) break;
    wire_pace_spend(hca, qp);
    requester->next_psn = wire_psn_add(requester->next_psn, packets);
    if (wire_psn_distance(requester->next_psn, requester->top_psn) > 0)
      requester->top_psn = requester->next_psn;
    const struct wire_request *request = wire_request_at(requester, requester->sending);
    if (requester->next_psn == end_of(request)) requester->sending++;
    made++;
  }
  const unsigned unsent = wire_flush(hca);
  if (made && requester->deadline_ns == 0) requester->deadline_ns = now_ns + timeout_ns(qp);
  if (unsent) set_next(requester, psns[made - unsent]);
  /* Without acknowledgements, a request is complete once it is sent. */
  if (wire_is_unreliable(qp) && made != unsent && !advance(hca, qp, requester->next_psn))
    return false;
  if (unsent == 0) return made == WIRE_BATCH || !wire_has_credit(hca);
  hca_wait_until(hca, qp, HCA_WAIT_WIRE, now_ns + FULL_PAUSE_NS);
  return false;
}

bool wire_request(struct hca *hca, struct hca_qp *qp) {
  struct wire_requester *requester = &qp->wired->requester;
  const uint64_t now_ns = hca_now_ns();
  if (requester->deadline_ns && now_ns >= requester->deadline_ns && !expire(hca, qp)) return false;
  hca_wait_end(hca, qp);
  bool more = false;
  if (!requester->paused) {
    wire_take_requests(hca, qp);
    if (!may_end(qp) || !wire_end_silent(hca, qp) || has_failed(hca, qp)) return false;
    /* `sending` may refer to a request that was taken just now. */
    more = send_some(hca, qp, now_ns);
    if (has_failed(hca, qp)) return false;
  }
  /* A connection that its rate holds back does not time out. */
  const uint64_t held_ns = qp->wired->pace.wake_ns;
  if (requester->deadline_ns && held_ns && requester->deadline_ns < held_ns + timeout_ns(qp))
    requester->deadline_ns = held_ns + timeout_ns(qp);
  const uint64_t wake_ns = wire_wake_ns(requester);
  if (wake_ns && qp->waiting == HCA_WAIT_NONE) hca_wait_until(hca, qp, HCA_WAIT_WIRE, wake_ns);
  return more;
}
