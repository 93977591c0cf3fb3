/* Whose turn it is, who waits, and what ends the engine's sleep. */
#define _GNU_SOURCE
#include <unistd.h>

#include "internal.h"

void hca_ring(struct hca *hca) {
  const uint64_t one = 1;
  if (write(hca->wake_fd, &one, sizeof one) < 0) return; /* full: it is awake */
}

void hca_enqueue(struct hca *hca, struct hca_qp *qp) {
  if (qp->queued) return;
  qp->queued = true;
  qp->next_queued = NULL;
  if (hca->last_queued)
    hca->last_queued->next_queued = qp;
  else
    hca->first_queued = qp;
  hca->last_queued = qp;
}

struct hca_qp *hca_dequeue(struct hca *hca) {
  struct hca_qp *qp = hca->first_queued;
  if (!qp) return NULL;
  hca->first_queued = qp->next_queued;
  if (!hca->first_queued) hca->last_queued = NULL;
  qp->queued = false;
  return qp;
}

void hca_wait_end(struct hca *hca, struct hca_qp *qp) {
  if (qp->waiting == HCA_WAIT_NONE) return;
  qp->waiting = HCA_WAIT_NONE;
  if (qp->next_waiting) qp->next_waiting->previous_waiting = qp->previous_waiting;
  if (qp->previous_waiting)
    qp->previous_waiting->next_waiting = qp->next_waiting;
  else
    hca->first_waiting = qp->next_waiting;
}

void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns) {
  hca_wait_end(hca, qp);
  qp->waiting = why;
  qp->wake_ns = wake_ns;
  qp->previous_waiting = NULL;
  qp->next_waiting = hca->first_waiting;
  if (qp->next_waiting) qp->next_waiting->previous_waiting = qp;
  hca->first_waiting = qp;
}

uint64_t hca_wake_due(struct hca *hca, uint64_t now_ns) {
  uint64_t next_ns = UINT64_MAX;
  for (struct hca_qp *qp = hca->first_waiting; qp; qp = qp->next_waiting) {
    if (qp->wake_ns <= now_ns)
      hca_enqueue(hca, qp);
    else if (qp->wake_ns < next_ns)
      next_ns = qp->wake_ns;
  }
  return next_ns;
}

void hca_forget(struct hca *hca, struct hca_qp *qp) {
  hca_wait_end(hca, qp);
  if (!qp->queued) return;
  struct hca_qp *last = NULL;
  for (struct hca_qp **link = &hca->first_queued; *link; link = &(*link)->next_queued) {
    if (*link == qp) {
      *link = qp->next_queued;
      break;
    }
  }
  for (struct hca_qp *left = hca->first_queued; left; left = left->next_queued) last = left;
  hca->last_queued = last;
  qp->queued = false;
}
