#define _GNU_SOURCE
#include <unistd.h>

#include "base/clock.h"
#include "base/internal.h"

/* The engine's end of the pipes is non-blocking: a client that never reads its pipe loses events
 * and blocks no other client. */
void hca_event(struct hca_client *client, uint32_t type, uint32_t handle) {
  const tessera_hca_event event = {.type = type, .handle = handle};
  hca_charge(client->hca, HCA_CALL_COST);
  if (write(client->async_fd, &event, sizeof event) < 0) return;
}

static void notify(struct hca_cq *cq) {
  __atomic_store_n(&cq->page->armed, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&cq->page->events, ++cq->events, __ATOMIC_RELEASE);
  hca_charge(cq->client->hca, HCA_CALL_COST);
  if (cq->notify_fd < 0 || write(cq->notify_fd, "", 1) < 0) return;
}

bool hca_rearm(struct hca_client *client, int64_t least_credit) {
  if (__atomic_load_n(&client->page->armed, __ATOMIC_SEQ_CST) != 0) {
    __atomic_store_n(&client->page->armed, 0, __ATOMIC_SEQ_CST);
    client->rearm_left = client->cq_count; /* from here on all completions are lost */
  }
  for (; client->rearm_left; client->rearm_left--) {
    if (client->function->credit <= least_credit) return false;
    struct hca_cq *cq = client->rearm_next ? client->rearm_next : client->cqs;
    if (!cq) break;
    client->rearm_next = cq->next;
    hca_charge(client->hca, HCA_STEP_COST);
    client->function->counts.steps++;
    const bool taken = __atomic_load_n(&cq->page->tail, __ATOMIC_ACQUIRE) == cq->head;
    if (!taken && __atomic_load_n(&cq->page->armed, __ATOMIC_SEQ_CST) == 1) notify(cq);
  }
  client->rearm_left = 0;
  return true;
}

bool hca_complete(struct hca_cq *cq, const tessera_hca_cqe *entry, bool solicited) {
  /* An implausible tail, which only the client can have written, counts as a full queue. */
  const uint32_t used = cq->head - __atomic_load_n(&cq->page->tail, __ATOMIC_ACQUIRE);
  if (cq->overrun || used >= cq->count) {
    if (!cq->overrun) hca_event(cq->client, TESSERA_VERBS_EVENT_CQ_ERR, cq->handle);
    cq->overrun = true;
    return false;
  }
  tessera_hca_cqe *slot = &cq->entries[cq->head & (cq->count - 1)];
  *slot = *entry;
  slot->timestamp = hca_now_ns();
  /* The engine writes `head` before it reads `armed`; the client writes `armed` before it reads
   * `head`. */
  __atomic_store_n(&cq->page->head, ++cq->head, __ATOMIC_SEQ_CST);
  const uint32_t armed = __atomic_load_n(&cq->page->armed, __ATOMIC_SEQ_CST);
  if (armed == 1 || (armed == 2 && (solicited || entry->status != TESSERA_VERBS_STATUS_SUCCESS)))
    notify(cq);
  return true;
}
