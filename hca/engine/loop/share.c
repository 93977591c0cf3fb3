/* Functions are scheduled by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each
 * turn adds a quantum to a function's credit, however many queue pairs it has; its queue pairs
 * share the turn. Work beyond the credit is a debt, which is paid before the next turn. */
#include "base/internal.h"

static void finish_round(struct hca_function *function) {
  atomic_fetch_add_explicit(&function->rounds, 1, memory_order_relaxed);
}

bool hca_find_ready(struct hca *hca, uint64_t now_ns, uint64_t *wake_ns) {
  *wake_ns = UINT64_MAX;
  for (struct hca_function *function = hca->functions; function; function = function->next) {
    if (function->ready) continue;
    const uint64_t next_ns = hca_next_wake_ns(function);
    if (hca_has_rung(hca, function, now_ns) || next_ns <= now_ns || hca_has_woken(hca, function)) {
      hca_make_ready(hca, function);
      continue;
    }
    finish_round(function);
    if (next_ns < *wake_ns) *wake_ns = next_ns;
  }
  return hca->first_ready != NULL;
}

static bool has_callers(const struct hca *hca) {
  return atomic_load_explicit(&hca->callers, memory_order_relaxed) != 0;
}

static void raise_to(uint64_t *most, uint64_t value) {
  if (*most < value) *most = value;
}

/* Begin a turn: collect the function's new requests and its expired timers. */
static void begin(struct hca *hca, struct hca_function *function, uint64_t now_ns) {
  function->credit += HCA_QUANTUM;
  function->begun = true;
  function->counts.turns++;
  raise_to(&function->counts.most_waited, hca->work - function->ready_since);
  if (function->credit <= 0) return;
  hca_collect(hca, function);
  hca_wake(hca, function, now_ns);
}

/* Run a function's turn; false where it was interrupted. */
static bool take_turn(struct hca *hca, struct hca_function *function, uint64_t now_ns) {
  const uint64_t before = hca->work;
  bool ended = true;
  hca->charged = function;
  if (!function->begun) begin(hca, function, now_ns);
  const struct hca_qp *idle = NULL; /* no queue pair has done anything since this one's turn */
  while (function->credit > 0) {
    struct hca_qp *qp = hca_dequeue(function);
    if (!qp) break;
    hca_charge(hca, HCA_TURN_COST);
    const int64_t credit = function->credit;
    if (hca_turn(hca, qp)) hca_enqueue(hca, qp);
    const bool idles = qp->queued && function->credit == credit;
    if (idles && qp == idle) { /* all wait for other QoS classes, which must be served first */
      function->credit = 0;
      break;
    }
    if (!idles || !idle) idle = idles ? qp : NULL;
    ended = !has_callers(hca);
    if (!ended) break;
  }
  hca->charged = NULL;
  raise_to(&function->counts.most_turn, hca->work - before);
  return ended;
}

/* End a turn: move the function to the end of the ready list, or off the list if it has no work. */
static void end_turn(struct hca *hca, struct hca_function *function) {
  function->begun = false;
  finish_round(function);
  hca->first_ready = function->next_ready;
  if (!hca->first_ready) hca->last_ready = NULL;
  function->ready = false;
  if (function->first_queued || function->credit < 0)
    hca_make_ready(hca, function);
  else
    function->credit = 0;
}

void hca_serve(struct hca *hca, uint64_t now_ns) {
  const struct hca_function *last = hca->last_ready;
  const uint64_t end = hca->work + HCA_QUANTUM;
  while (hca->first_ready) {
    struct hca_function *function = hca->first_ready;
    if (!take_turn(hca, function, now_ns)) return;
    end_turn(hca, function);
    if (function == last || hca->work >= end || has_callers(hca)) return;
  }
}
