/* Waiting queue pairs: each has a timer. A queue pair may also wait for a receive request of a
 * shared queue, or for a rate limit that policy may change. */
#include "base/internal.h"

/* Timers of a function: a binary heap. */
static void put(struct hca_function *function, uint32_t place, struct hca_qp *qp) {
  function->timers[place] = qp;
  qp->timer = place;
}

static void sift(struct hca_function *function, uint32_t place) {
  struct hca_qp *qp = function->timers[place];
  for (; place > 0; place = (place - 1) / 2) {
    struct hca_qp *parent = function->timers[(place - 1) / 2];
    if (parent->wake_ns <= qp->wake_ns) break;
    put(function, place, parent);
  }
  for (uint32_t child; (child = 2 * place + 1) < function->timer_count; place = child) {
    if (child + 1 < function->timer_count &&
        function->timers[child + 1]->wake_ns < function->timers[child]->wake_ns)
      child++;
    if (function->timers[child]->wake_ns >= qp->wake_ns) break;
    put(function, place, function->timers[child]);
  }
  put(function, place, qp);
}

static void set_timer(struct hca_function *function, struct hca_qp *qp) {
  qp->timed = true;
  put(function, function->timer_count++, qp);
  sift(function, qp->timer);
}

static void clear_timer(struct hca_function *function, struct hca_qp *qp) {
  if (!qp->timed) return;
  qp->timed = false;
  struct hca_qp *last = function->timers[--function->timer_count];
  if (last == qp) return;
  put(function, qp->timer, last);
  sift(function, last->timer);
}

static void leave_paced(struct hca_function *function, struct hca_qp *qp) {
  if (!qp->paced) return;
  qp->paced = false;
  *(qp->previous_paced ? &qp->previous_paced->next_paced : &function->first_paced) =
      qp->next_paced;
  *(qp->next_paced ? &qp->next_paced->previous_paced : &function->last_paced) =
      qp->previous_paced;
}

static void join_paced(const struct hca *hca, struct hca_function *function, struct hca_qp *qp) {
  qp->paced = true;
  qp->paced_generation = hca->policy_generation;
  qp->next_paced = NULL;
  qp->previous_paced = function->last_paced;
  *(qp->previous_paced ? &qp->previous_paced->next_paced : &function->first_paced) = qp;
  function->last_paced = qp;
}

static void leave_waiters(struct hca_qp *qp) {
  struct hca_srq *srq = qp->awaited;
  if (!srq) return;
  qp->awaited = NULL;
  *(qp->previous_waiter ? &qp->previous_waiter->next_waiter : &srq->first_waiter) =
      qp->next_waiter;
  *(qp->next_waiter ? &qp->next_waiter->previous_waiter : &srq->last_waiter) =
      qp->previous_waiter;
  srq->waiters--;
  if (srq->wake_left > srq->waiters) srq->wake_left = srq->waiters;
}

static void join_waiters(struct hca_srq *srq, struct hca_qp *qp) {
  qp->awaited = srq;
  qp->next_waiter = NULL;
  qp->previous_waiter = srq->last_waiter;
  *(qp->previous_waiter ? &qp->previous_waiter->next_waiter : &srq->first_waiter) = qp;
  srq->last_waiter = qp;
  srq->waiters++;
}

void hca_wait_end(struct hca *hca, struct hca_qp *qp) {
  if (qp->waiting == HCA_WAIT_NONE) return;
  qp->waiting = HCA_WAIT_NONE;
  hca->waiting_count--;
  clear_timer(qp->client->function, qp);
  leave_paced(qp->client->function, qp);
  leave_waiters(qp);
}

void hca_forget(struct hca *hca, struct hca_qp *qp) {
  hca_wait_end(hca, qp);
  hca_unqueue(qp);
}

void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns) {
  hca_wait_end(hca, qp);
  qp->waiting = why;
  hca->waiting_count++;
  qp->wake_ns = wake_ns;
  set_timer(qp->client->function, qp);
  if (why == HCA_WAIT_RATE || why == HCA_WAIT_WIRE) join_paced(hca, qp->client->function, qp);
}

void hca_wait_for_srq(struct hca *hca, struct hca_qp *qp, struct hca_srq *srq, uint64_t wake_ns) {
  hca_wait_until(hca, qp, HCA_WAIT_RECEIVE, wake_ns);
  join_waiters(srq, qp);
}

bool hca_leave_srq(struct hca_srq *srq) {
  enum { AT_ONCE = 64 }; /* limits the time for which the lock is held */
  for (unsigned i = 0; srq->first_waiter && i < AT_ONCE; i++) leave_waiters(srq->first_waiter);
  return srq->first_waiter == NULL;
}

static void list_posted(struct hca_function *function, struct hca_srq *srq) {
  srq->posted = true;
  srq->next_posted = NULL;
  srq->previous_posted = function->last_posted;
  *(srq->previous_posted ? &srq->previous_posted->next_posted : &function->first_posted) = srq;
  function->last_posted = srq;
}

void hca_srq_posted(struct hca_srq *srq) {
  /* An empty queue has a receive request for none of the waiters. */
  if (__atomic_load_n(&srq->page->head, __ATOMIC_ACQUIRE) == srq->tail) return;
  srq->wake_left = srq->waiters;
  if (!srq->posted && srq->wake_left) list_posted(srq->client->function, srq);
}

void hca_srq_forget(struct hca_srq *srq) {
  struct hca_function *function = srq->client->function;
  if (!srq->posted) return;
  srq->posted = false;
  *(srq->previous_posted ? &srq->previous_posted->next_posted : &function->first_posted) =
      srq->next_posted;
  *(srq->next_posted ? &srq->next_posted->previous_posted : &function->last_posted) =
      srq->previous_posted;
}

uint64_t hca_next_wake_ns(const struct hca_function *function) {
  return function->timer_count ? function->timers[0]->wake_ns : UINT64_MAX;
}

static bool looks_again(const struct hca *hca, const struct hca_function *function) {
  return function->first_paced &&
         function->first_paced->paced_generation != hca->policy_generation;
}

bool hca_has_woken(const struct hca *hca, const struct hca_function *function) {
  return function->first_posted || looks_again(hca, function);
}

static void visit(struct hca *hca, struct hca_qp *qp) {
  hca_charge(hca, HCA_STEP_COST);
  hca_enqueue(hca, qp);
}

void hca_wake(struct hca *hca, struct hca_function *function, uint64_t now_ns) {
  int64_t least = function->credit - HCA_WALK_COST;
  while (hca_next_wake_ns(function) <= now_ns && function->credit > least) {
    struct hca_qp *qp = function->timers[0];
    clear_timer(function, qp); /* its turn decides whether it waits again */
    visit(hca, qp);
  }
  least = function->credit - HCA_WALK_COST;
  while (function->first_posted && function->credit > least) {
    struct hca_srq *srq = function->first_posted;
    while (srq->wake_left && function->credit > least) {
      struct hca_qp *qp = srq->first_waiter;
      const uint32_t left = srq->wake_left - 1;
      leave_waiters(qp); /* move it after those not visited yet */
      join_waiters(srq, qp);
      srq->wake_left = left;
      function->counts.steps++;
      visit(hca, qp);
    }
    hca_srq_forget(srq);
    /* so that a queue that is filled without pause does not starve others */
    if (srq->wake_left) list_posted(function, srq);
  }
  least = function->credit - HCA_WALK_COST;
  while (looks_again(hca, function) && function->credit > least) {
    struct hca_qp *qp = function->first_paced;
    leave_paced(function, qp);
    join_paced(hca, function, qp);
    visit(hca, qp);
  }
}
