/* What programs have written into their pages: bits of queue pairs and of shared receive queues, and
 * completion queues that are armed. A walk ends when it has cost enough, and goes on from there in the
 * function's next turn. */
#include "internal.h"

enum { WORDS = TESSERA_HCA_MAX_QPS / 64, SRQ_WORDS = TESSERA_HCA_MAX_SRQS / 64 };

static bool has_bits(const uint64_t *words, unsigned count) {
  for (unsigned i = 0; i < count; i++)
    if (__atomic_load_n(&words[i], __ATOMIC_SEQ_CST) != 0) return true;
  return false;
}

bool hca_has_doorbells(const struct hca_function *function) {
  for (const struct hca_client *client = function->clients; client;
       client = client->next_of_function)
    if (hca_is_rearming(client) || has_bits(client->page->dirty, WORDS) ||
        has_bits(client->page->dirty_srqs, SRQ_WORDS))
      return true;
  return false;
}

static uint64_t take_bits(uint64_t *word) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0) return 0;
  return __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
}

static void visit(struct hca *hca, struct hca_function *function) {
  hca_charge(hca, HCA_STEP_COST);
  function->counts.steps++;
}

/* Queues the queue pairs whose bits a client has set; false where there may be more. */
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

/* The same of shared receive queues: what waits for them is queued by hca_wake(). */
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

static struct hca_client *after(const struct hca_function *function,
                                const struct hca_client *client) {
  return client->next_of_function ? client->next_of_function : function->clients;
}

/* Where a walk goes on behind a client; NULL: not in this turn. A client whose part was cut short is the
 * first of the next turn, unless it was of this one: so none that asks for more than a turn has keeps
 * another waiting. */
static struct hca_client *next_client(const struct hca_function *function,
                                      struct hca_client **place, const struct hca_client *first,
                                      struct hca_client *client, bool whole) {
  *place = !whole && client != first ? client : after(function, client);
  return whole && *place != first ? *place : NULL;
}

void hca_collect(struct hca *hca, struct hca_function *function) {
  struct hca_client *first = function->collecting ? function->collecting : function->clients;
  const int64_t least = function->credit - HCA_WALK_COST;
  for (struct hca_client *client = first; client;) {
    /* Shared queues first, and at most half, so that a client that sets bits of one kind does not keep
     * the other waiting. */
    const bool shared = collect_shared(hca, client, least + HCA_WALK_COST / 2);
    const bool pairs = collect_queue_pairs(hca, client, least);
    client = next_client(function, &function->collecting, first, client, shared && pairs);
  }
  first = function->rearming ? function->rearming : function->clients;
  const int64_t least_rearmed = function->credit - HCA_WALK_COST;
  for (struct hca_client *client = first; client;) {
    const bool whole = hca_rearm(client, least_rearmed);
    client = next_client(function, &function->rearming, first, client, whole);
  }
}
