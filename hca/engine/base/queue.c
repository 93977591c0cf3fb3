/* Lists of ready functions and of their queue pairs with work, and the wake-up of the engine's
 * thread. */
#define _GNU_SOURCE
#include <unistd.h>

#include "base/internal.h"

void hca_ring(struct hca *hca) {
  const uint64_t one = 1;
  if (write(hca->wake_fd, &one, sizeof one) < 0) return; /* the counter is full: it is awake */
}

void hca_make_ready(struct hca *hca, struct hca_function *function) {
  if (function->ready) return;
  function->ready = true;
  function->ready_since = hca->work;
  function->next_ready = NULL;
  if (hca->last_ready)
    hca->last_ready->next_ready = function;
  else
    hca->first_ready = function;
  hca->last_ready = function;
}

void hca_enqueue(struct hca *hca, struct hca_qp *qp) {
  struct hca_function *function = qp->client->function;
  if (qp->queued) return;
  qp->queued = true;
  qp->next_queued = NULL;
  qp->previous_queued = function->last_queued;
  *(qp->previous_queued ? &qp->previous_queued->next_queued : &function->first_queued) = qp;
  function->last_queued = qp;
  hca_make_ready(hca, function);
}

static void unqueue(struct hca_function *function, struct hca_qp *qp) {
  qp->queued = false;
  *(qp->previous_queued ? &qp->previous_queued->next_queued : &function->first_queued) =
      qp->next_queued;
  *(qp->next_queued ? &qp->next_queued->previous_queued : &function->last_queued) =
      qp->previous_queued;
}

struct hca_qp *hca_dequeue(struct hca_function *function) {
  struct hca_qp *qp = function->first_queued;
  if (qp) unqueue(function, qp);
  return qp;
}

void hca_unqueue(struct hca_qp *qp) {
  if (qp->queued) unqueue(qp->client->function, qp);
}
