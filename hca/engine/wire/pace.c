/* QoS classes: the traffic class of packets, the classes' weighted shares of the engine's
 * sending, and each class's minimum and maximum rate. Congestion limits of single queue pairs
 * are applied here, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "wire/wire.h"

enum {
  LEAD_BYTES = 65536, /* how far a class of weight 1 may be ahead of another ready class */
};

int hca_qos_classes_set(struct hca *hca, const tessera_hca_qos_class *classes, uint32_t count) {
  if (count > TESSERA_HCA_QOS_CLASSES) return EINVAL;
  struct hca_pacing *made = count ? calloc(1, sizeof *made) : NULL;
  if (count && !made) return ENOMEM;
  hca_enter(hca);
  struct hca_pacing *before = hca->pacing;
  if (made || before) {
    for (struct hca_wire *wire = hca->wires; wire; wire = wire->next)
      memset(wire->ceilings, 0, sizeof wire->ceilings);
    if (made) {
      /* Queue pairs that were ready under the old classes register again in their next turns. */
      made->number = ++hca->pacing_number;
      made->count = count + 1;
      made->classes[0].settings.weight = 1;
      for (uint32_t i = 0; i < count; i++) {
        made->classes[i + 1].settings = classes[i];
        made->classes[i + 1].least = hca_bucket_of(classes[i].bytes_at_least);
      }
    }
  }
  hca->pacing = made;
  hca_leave(hca);
  free(before);
  return 0;
}

unsigned wire_class_of(const struct hca *hca, const struct hca_qp *qp) {
  const unsigned number = qp->policy.qos_class;
  return hca->pacing && number < hca->pacing->count ? number : 0;
}

uint8_t wire_tos(const struct hca *hca, const struct hca_qp *qp, uint8_t opcode) {
  const unsigned number = wire_class_of(hca, qp);
  const tessera_hca_qos_class *settings = number ? &hca->pacing->classes[number].settings : NULL;
  if (opcode == WIRE_CNP) return settings ? settings->cnp_traffic_class : WIRE_CNP_TOS;
  const uint8_t requested = settings ? settings->traffic_class : qp->attributes.traffic_class;
  return (uint8_t)((requested & ~WIRE_ECN_MASK) | WIRE_ECN_0);
}

static void set_ready(struct hca *hca, struct hca_wired *wired, bool ready) {
  struct hca_pacing *pacing = hca->pacing;
  struct wire_pace *pace = &wired->pace;
  const unsigned number = wire_class_of(hca, wired->qp);
  const bool counted = pace->ready == pacing->number;
  if (counted && ready && pace->ready_in == number) return;
  if (counted) {
    pacing->classes[pace->ready_in].ready--;
    pacing->ready--;
    pace->ready = 0;
  }
  if (!ready) return;
  struct wire_class *own = &pacing->classes[number];
  if (own->ready == 0) {
    /* A class accumulates no share while it is idle. */
    double least = own->served;
    bool any = false;
    for (unsigned i = 0; i < pacing->count; i++) {
      const struct wire_class *other = &pacing->classes[i];
      if (other->ready && (!any || other->served < least)) least = other->served;
      any |= other->ready != 0;
    }
    if (own->served < least) own->served = least;
  }
  own->ready++;
  pacing->ready++;
  pace->ready_in = number;
  pace->ready = pacing->number;
}

/* Whether another ready class must send first: one below its guaranteed minimum, or one that is
 * behind in virtual time. */
static bool must_yield(struct hca_pacing *pacing, unsigned number, uint64_t now_ns) {
  struct wire_class *own = &pacing->classes[number];
  if (pacing->ready == own->ready) return false;
  if (own->settings.bytes_at_least && hca_bucket_wait_ns(&own->least, now_ns) == 0) return false;
  for (unsigned i = 0; i < pacing->count; i++) {
    struct wire_class *other = &pacing->classes[i];
    if (i == number || other->ready == 0) continue;
    if (other->settings.bytes_at_least && hca_bucket_wait_ns(&other->least, now_ns) == 0)
      return true;
    if (own->served > other->served + LEAD_BYTES) return true;
  }
  return false;
}

/* Return a class's maximum rate on one wire; NULL: it has none. */
static struct hca_bucket *ceiling_of(struct hca *hca, struct hca_wired *wired, unsigned number) {
  const uint64_t most = number ? hca->pacing->classes[number].settings.bytes_at_most : 0;
  if (most == 0) return NULL;
  struct hca_bucket *bucket = &wired->wire->ceilings[number];
  if (bucket->per_ns == 0) *bucket = hca_bucket_of(most);
  return bucket;
}

void wire_pace_begin(struct hca_qp *qp) {
  qp->wired->pace.now_ns = qp->wired->pace.wake_ns = 0;
  qp->wired->pace.wants = false;
}

static bool hold(struct wire_pace *pace, uint64_t wait_ns) {
  if (wait_ns == 0) return false;
  pace->wake_ns = pace->now_ns + wait_ns;
  return true;
}

bool wire_pace_must_wait(struct hca *hca, struct hca_qp *qp) {
  struct hca_wired *wired = qp->wired;
  struct wire_pace *pace = &wired->pace;
  if (pace->now_ns == 0) pace->now_ns = hca_now_ns();
  hca_charge(hca, (uint64_t)WIRE_STEP_COST *
                      wire_congestion_advance(&wired->congestion, pace->now_ns));
  if (hold(pace, wire_congestion_wait_ns(&wired->congestion, pace->now_ns))) return true;
  const unsigned number = wire_class_of(hca, qp);
  struct hca_bucket *ceiling = ceiling_of(hca, wired, number);
  if (ceiling && hold(pace, hca_bucket_wait_ns(ceiling, pace->now_ns))) return true;
  if (hca->pacing) set_ready(hca, wired, true);
  pace->wants = hold(pace, hca_bucket_wait_ns(&wired->wire->port, pace->now_ns)) ||
                (hca->pacing && must_yield(hca->pacing, number, pace->now_ns));
  return pace->wants;
}

void wire_pace_charge(struct hca *hca, struct hca_qp *qp) {
  struct hca_wired *wired = qp->wired;
  const struct wire_batch *batch = hca->wire_batch;
  const uint32_t bytes = batch->out[batch->count - 1].bytes;
  wire_congestion_spend(&wired->congestion, bytes);
  wired->wire->port.tokens -= bytes;
  if (!hca->pacing) return;
  const unsigned number = wire_class_of(hca, qp);
  struct wire_class *own = &hca->pacing->classes[number];
  own->served += (double)bytes / own->settings.weight;
  /* For bytes beyond the guaranteed minimum, the class owes at most one burst. */
  if ((own->least.tokens -= bytes) < -own->least.burst) own->least.tokens = -own->least.burst;
  struct hca_bucket *ceiling = ceiling_of(hca, wired, number);
  if (ceiling) ceiling->tokens -= bytes;
}

bool wire_pace_end(struct hca *hca, struct hca_qp *qp, bool more) {
  struct wire_pace *pace = &qp->wired->pace;
  /* A queue pair whose own rate makes it wait could not send anyway, so its class does not delay
   * others. */
  const bool own = pace->wake_ns != 0 && !pace->wants;
  if (hca->pacing) set_ready(hca, qp->wired, !own && (more || pace->wants));
  if (pace->wake_ns) {
    const bool sooner = qp->waiting == HCA_WAIT_WIRE && qp->wake_ns < pace->wake_ns;
    if (!sooner) hca_wait_until(hca, qp, HCA_WAIT_WIRE, pace->wake_ns);
    return false;
  }
  return more || pace->wants;
}

void hca_wire_stop(struct hca *hca, struct hca_qp *qp) {
  if (hca->pacing && qp->wired) set_ready(hca, qp->wired, false);
}
