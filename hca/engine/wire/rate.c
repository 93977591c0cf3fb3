/* The reaction point's rate (DCQCN; see wire/congestion.c): cut by notifications, raised again
 * by time and by bytes sent. */
#include "wire/pace.h"

enum {
  STEP_NS = 55000,            /* K and T: interval of decreases of alpha, and of rate increases */
  VOLUME_BYTES = 10000000,    /* B: after this many bytes the rate also increases */
  RECOVERIES = 5,             /* F: steps of fast recovery */
  MOST_STEPS = 4096,          /* after this many without a notification, the rate is restored */
  /* the time that an engine which sleeps with millisecond resolution may make up for */
  BURST_NS = 1000000,
};

static const double G = 1.0 / 256;
static const double LINE_RATE = 5.0;     /* bytes per ns: the 40 Gb/s of the paper's links */
/* R_AI and R_HAI, 5 and 50 Mb/s, as mlx5 has them (rpg_ai_rate, rpg_hai_rate). The paper's 40
 * Mb/s would be too fast here: a receiver that reads packets in batches sends one notification
 * per batch. */
static const double ADDITIVE = 0.000625;
static const double HYPER = 0.00625;
/* The minimum, 40 Mb/s: notifications, true or forged, never stop a flow, however many they are. */
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
  if (LINE_RATE - rate < ADDITIVE) rate = LINE_RATE; /* the mean never reaches it exactly */
  set_rate(congestion, rate);
}

unsigned wire_congestion_advance(struct wire_congestion *congestion, uint64_t now_ns) {
  unsigned steps = 0;
  for (; congestion->limited && now_ns >= congestion->next_ns; congestion->next_ns += STEP_NS) {
    if (steps == MOST_STEPS) {
      set_rate(congestion, LINE_RATE);
      break;
    }
    steps++;
    congestion->alpha *= 1 - G;
    congestion->times++;
    raise(congestion);
  }
  return steps;
}

void wire_congestion_cut(struct wire_congestion *congestion, uint64_t now_ns) {
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
  wire_congestion_advance(congestion, now_ns);
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
