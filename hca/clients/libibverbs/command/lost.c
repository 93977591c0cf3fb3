/* Completion of requests after hcad has gone; they are flushed, as by hardware.
 *
 * The rings have no other writer any more, so this library fills the completion queues itself
 * when they are polled: with WR_FLUSH_ERR for each request that was not executed. */
#define _GNU_SOURCE
#include <string.h>

#include "command/command.h"
#include "objects.h"

static bool put(struct tsr_cq *cq, tessera_hca_cqe entry) {
  const uint32_t head = cq->page->head;
  if (head - cq->tail >= cq->count) return false;
  entry.status = TESSERA_VERBS_STATUS_WR_FLUSH_ERR;
  memcpy((void *)&cq->entries[head & (cq->count - 1)], &entry, sizeof entry);
  __atomic_store_n(&cq->page->head, head + 1, __ATOMIC_RELEASE);
  return true;
}

/* Whether posted requests are left between tail and head; a tail beyond them was not written by
 * hcad. */
static bool is_left(uint32_t head, uint32_t tail, uint32_t count) {
  return head != tail && head - tail <= count;
}

static void flush_sends(struct tsr_cq *cq, struct tsr_qp *qp) {
  pthread_mutex_lock(&qp->sending);
  uint32_t tail = qp->page->send_tail;
  while (is_left(qp->send_head, tail, qp->send_count) &&
         put(cq, (tessera_hca_cqe){.id = qp->send_slots[tail & (qp->send_count - 1)].id,
                                   .qpn = qp->ibv.qp_num}))
    __atomic_store_n(&qp->page->send_tail, ++tail, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&qp->sending);
}

static void flush_receives(struct tsr_cq *cq, struct tsr_qp *qp) {
  pthread_mutex_lock(&qp->receiving);
  uint32_t tail = qp->page->recv_tail;
  while (is_left(qp->recv_head, tail, qp->recv_count) &&
         put(cq, (tessera_hca_cqe){.id = qp->recv_slots[tail & (qp->recv_count - 1)].id,
                                   .opcode = TESSERA_VERBS_DONE_RECV,
                                   .qpn = qp->ibv.qp_num}))
    __atomic_store_n(&qp->page->recv_tail, ++tail, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&qp->receiving);
}

bool tsr_flush_lost(struct tsr_cq *cq) {
  struct ibv_context *ibv = cq->ibv.context;
  const uint32_t before = cq->page->head;
  pthread_mutex_lock(&ibv->mutex);
  for (struct tsr_qp *qp = tsr_of(ibv)->qps; qp; qp = qp->next) {
    if (qp->ibv.state != TESSERA_VERBS_STATE_RESET) qp->ibv.state = TESSERA_VERBS_STATE_ERR;
    if (qp->ibv.send_cq == &cq->ibv) flush_sends(cq, qp);
    if (qp->ibv.recv_cq == &cq->ibv) flush_receives(cq, qp);
  }
  pthread_mutex_unlock(&ibv->mutex);
  return cq->page->head != before;
}

struct tsr_cq *tsr_lost_event(struct ibv_comp_channel *channel) {
  struct tsr_context *context = tsr_of(channel->context);
  for (struct tsr_cq *cq = context->cqs; cq; cq = cq->next) {
    if (cq->ibv.channel != channel) continue;
    pthread_mutex_lock(&cq->polling);
    const bool armed = cq->page->armed != 0;
    if (armed) tsr_flush_lost(cq);
    const bool something = armed && cq->page->head != cq->tail;
    if (something) cq->page->armed = 0;
    pthread_mutex_unlock(&cq->polling);
    if (!something) continue;
    pthread_mutex_lock(&cq->ibv.mutex);
    cq->events_given++;
    pthread_mutex_unlock(&cq->ibv.mutex);
    return cq;
  }
  return NULL;
}
