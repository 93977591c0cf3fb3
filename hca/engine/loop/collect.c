/* Reads what programs have set in their pages: bits of queue pairs and of shared receive queues,
 * and armed completion queues. A walk over the due pages ends when it has used up its cost
 * limit, and continues in the function's next turn. */
#include "base/internal.h"

enum { WORDS = TESSERA_HCA_MAX_QPS / 64, SRQ_WORDS = TESSERA_HCA_MAX_SRQS / 64 };

static uint64_t take_bits(uint64_t *word) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) return 0;
  return __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
}

static void visit(struct hca *hca, struct hca_function *function) {
  hca_charge(hca, HCA_STEP_COST);
  function->counts.steps++;
}

/* Queue the queue pairs whose bits a client has set; false where there may be more. */
static bool collect_queue_pairs(struct hca *hca, struct hca_client *client, int64_t least) {
  for (unsigned i = 0; i < WORDS; i++) {
    if (client->function->credit <= least) return false;
    const unsigned word = client->word;
    client->word = (word + 1) % WORDS;
    for (uint64_t bits = take_bits(&client->page->dirty[word]); bits; bits &= bits - 1) {
      struct hca_qp *qp = client->qps[word * 64 + (unsigned)__builtin_ctzll(bits)];
      visit(hca, client->function);
      if (qp) hca_enqueue(hca, qp);
    }
  }
  return true;
}

/* Read the bits of shared receive queues; hca_wake() queues the requesters that wait for them. */
static bool collect_shared(struct hca *hca, struct hca_client *client, int64_t least) {
  for (unsigned i = 0; i < SRQ_WORDS; i++) {
    if (client->function->credit <= least) return false;
    const unsigned word = client->srq_word;
    client->srq_word = (word + 1) % SRQ_WORDS;
    for (uint64_t bits = take_bits(&client->page->dirty_srqs[word]); bits; bits &= bits - 1) {
      struct hca_srq *srq = client->srqs[word * 64 + (unsigned)__builtin_ctzll(bits)];
      visit(hca, client->function);
      if (srq) hca_srq_posted(srq);
    }
  }
  return true;
}

/* Shared receive queues come first and may use at most half of the walk's cost limit, so that a
 * client that sets bits of one kind does not delay the other kind. */
static bool collect_bits(struct hca *hca, struct hca_client *client, int64_t least) {
  const bool shared = collect_shared(hca, client, least + HCA_WALK_COST / 2);
  return collect_queue_pairs(hca, client, least) && shared;
}

static bool rearm(struct hca *hca, struct hca_client *client, int64_t least) {
  (void)hca;
  return hca_rearm(client, least);
}

/* Walk over the function's due pages. A client whose walk was cut short comes first in the next
 * turn, unless it came first in this one, so that a client with more work than fits in a turn
 * does not starve another. */
static void walk_due(struct hca *hca, struct hca_function *function, enum hca_walk walk,
                     bool (*carry_out)(struct hca *, struct hca_client *, int64_t)) {
  struct hca_client *first = function->bells.first_due[walk], *client;
  const int64_t least = function->credit - HCA_WALK_COST;
  while ((client = function->bells.first_due[walk]) != NULL && function->credit > least) {
    hca_charge(hca, HCA_STEP_COST);
    const bool whole = carry_out(hca, client, least);
    if (!whole && client != first) return;
    hca_clear_due(client, walk);
    if (whole) continue;
    hca_set_due(client, walk);
    return;
  }
}

void hca_collect(struct hca *hca, struct hca_function *function) {
  hca_answer_bells(hca, function);
  walk_due(hca, function, HCA_WALK_BITS, collect_bits);
  walk_due(hca, function, HCA_WALK_ARMED, rearm);
}
