/* Congestion control of RoCEv2: DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA
 * Deployments", SIGCOMM 2015), with the notification packets of IBTA annex A17.
 *
 * The network marks (ECN). The notification point, who receives, tells the sender by a CNP, at most
 * one a queue pair in 50 us. The reaction point, who sends, cuts its rate, and raises it again by
 * itself: first back to half the way of what was lost, then by steps, then by larger ones. */
#define _GNU_SOURCE
#include <string.h>

#include "clock.h"
#include "wire.h"

enum {
  NOTIFY_NS = 50000,          /* N: between notifications of one queue pair */
  BUNCH = 5,                  /* of them may be read at once: this engine waits for a CPU, too */
  STEP_NS = 55000,            /* K and T: alpha falls, and the rate rises */
  VOLUME_BYTES = 10000000,    /* B: the same, by what was sent */
  RECOVERIES = 5,             /* F: steps of fast recovery */
  MOST_STEPS = 4096,          /* without a notification: all has been got back by then */
  CNP_PAYLOAD_BYTES = 16,     /* zeros */
  CNP_BYTES = WIRE_BTH_BYTES + CNP_PAYLOAD_BYTES + WIRE_ICRC_BYTES,
  MARKS = 4,                  /* place of FECN and BECN in BTH */
  BACKWARD = 0x40,            /* BECN */
  BURST_NS = 1000000,         /* what an engine that sleeps to the millisecond may make up for */
};

static const double G = 1.0 / 256;
static const double LINE_RATE = 5.0;     /* bytes per ns: the 40 Gb/s of the paper's links */
/* R_AI and R_HAI, 5 and 50 Mb/s: what mlx5 has (rpg_ai_rate, rpg_hai_rate). The paper's 40 Mb/s would
 * be too quick here: who receives many packets at a time notifies once for all of them. */
static const double ADDITIVE = 0.000625;
static const double HYPER = 0.00625;
/* However many notifications come, true or forged, a flow goes on: 40 Mb/s. */
static const double LEAST_RATE = 0.005;

static void set_rate(struct wire_congestion *congestion, double rate) {
  if (rate < LEAST_RATE) rate = LEAST_RATE;
  congestion->limited = rate < LINE_RATE;
  congestion->rate = rate;
  congestion->bucket.per_ns = rate;
  congestion->bucket.burst = rate * BURST_NS;
}

static void raise(struct wire_congestion *congestion) {
  const unsigned most = congestion->times > congestion->volumes ? congestion->times
                                                                : congestion->volumes;
  const unsigned least = congestion->times + congestion->volumes - most;
  if (least > RECOVERIES)
    congestion->target += (least - RECOVERIES) * HYPER;
  else if (most >= RECOVERIES)
    congestion->target += ADDITIVE;
  if (congestion->target > LINE_RATE) congestion->target = LINE_RATE;
  double rate = (congestion->target + congestion->rate) / 2;
  if (LINE_RATE - rate < ADDITIVE) rate = LINE_RATE; /* it would never quite get there */
  set_rate(congestion, rate);
}

/* Does what was to be done since the last time. */
static void advance(struct wire_congestion *congestion, uint64_t now_ns) {
  unsigned steps = 0;
  for (; congestion->limited && now_ns >= congestion->next_ns; congestion->next_ns += STEP_NS) {
    if (steps++ == MOST_STEPS) set_rate(congestion, LINE_RATE);
    congestion->alpha *= 1 - G;
    congestion->times++;
    raise(congestion);
  }
}

static void cut(struct wire_congestion *congestion, uint64_t now_ns) {
  if (!congestion->limited) {
    congestion->alpha = 1;
    congestion->rate = LINE_RATE;
    congestion->bucket = (struct hca_bucket){.filled_ns = now_ns};
  }
  congestion->target = congestion->rate;
  set_rate(congestion, congestion->rate * (1 - congestion->alpha / 2));
  congestion->alpha = (1 - G) * congestion->alpha + G;
  congestion->times = congestion->volumes = 0;
  congestion->bytes = 0;
  congestion->next_ns = now_ns + STEP_NS;
}

uint64_t wire_congestion_wait_ns(struct wire_congestion *congestion, uint64_t now_ns) {
  advance(congestion, now_ns);
  return congestion->limited ? hca_bucket_wait_ns(&congestion->bucket, now_ns) : 0;
}

void wire_congestion_spend(struct wire_congestion *congestion, uint64_t bytes) {
  if (!congestion->limited) return;
  congestion->bucket.tokens -= (double)bytes;
  congestion->bytes += bytes;
  if (congestion->bytes < VOLUME_BYTES) return;
  congestion->bytes -= VOLUME_BYTES;
  congestion->volumes++;
  raise(congestion);
}

/* What loads the network: acknowledgements are few, and nobody could send less of them. */
static bool is_load(uint8_t opcode) {
  const unsigned kind = wire_form_of(opcode).kind;
  return kind == WIRE_SEND || kind == WIRE_WRITE || kind == WIRE_READ_RESPONSE;
}

void wire_congestion_marked(struct hca *hca, struct hca_qp *qp, uint8_t opcode) {
  struct wire_congestion *congestion = &qp->wired->congestion;
  if (!hca_receives(qp) || !is_load(opcode)) return;
  qp->wired->wire->counts.np_ecn_marked++;
  const uint64_t now_ns = hca_now_ns();
  if (congestion->notified_ns && now_ns - congestion->notified_ns < NOTIFY_NS) return;
  congestion->notified_ns = now_ns;
  const struct wire_packet packet = {.opcode = WIRE_CNP,
                                     .pkey = wire_pkey(qp),
                                     .qpn = qp->attributes.dest_qpn,
                                     .payload_bytes = CNP_PAYLOAD_BYTES};
  uint8_t *payload = wire_begin(hca, qp->wired, &packet);
  payload[MARKS - WIRE_BTH_BYTES] = BACKWARD;
  memset(payload, 0, CNP_PAYLOAD_BYTES);
  wire_end(hca, qp->wired, &packet);
  qp->wired->wire->counts.np_cnp_sent++;
}

static struct hca_qp *target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                             const uint8_t *data, size_t bytes) {
  if (bytes != CNP_BYTES || data[1] & 0x3F || !(data[MARKS] & BACKWARD)) {
    wire->counts.malformed++;
    return NULL;
  }
  const uint32_t qpn = (uint32_t)data[5] << 16 | (uint32_t)data[6] << 8 | data[7];
  const uint16_t pkey = (uint16_t)(data[2] << 8 | data[3]);
  struct hca_qp *qp = wire_target(hca, wire, path, qpn, pkey);
  if (!qp) return NULL;
  if (!wire_is_sound(path, 0, data, bytes)) {
    wire->counts.bad_icrc++;
    return NULL;
  }
  if (!hca_receives(qp)) {
    wire->counts.not_ready++;
    return NULL;
  }
  return qp;
}

void wire_congestion_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                          const uint8_t *data, size_t bytes) {
  struct hca_qp *qp = target(hca, wire, path, data, bytes);
  if (!qp) return;
  struct wire_congestion *congestion = &qp->wired->congestion;
  const uint64_t now_ns = hca_now_ns();
  advance(congestion, now_ns);
  /* No notification point sends more of them, or more than it got packets: who does wants harm. */
  if (congestion->sent == 0 || congestion->next_cut_ns > now_ns + (BUNCH - 1) * NOTIFY_NS) {
    wire->counts.rp_cnp_ignored++;
    return;
  }
  congestion->sent--;
  if (congestion->next_cut_ns < now_ns) congestion->next_cut_ns = now_ns;
  congestion->next_cut_ns += NOTIFY_NS;
  wire->counts.rp_cnp_handled++;
  cut(congestion, now_ns);
}
