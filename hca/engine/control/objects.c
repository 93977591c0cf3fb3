/* hcad's calls that add, change and remove clients, completion queues, regions and queue pairs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/internal.h"

static void *map(int fd, uint64_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static int duplicate(int fd) { return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3); }

static void drop_client(struct hca_client *client) {
  if (client->page) munmap(client->page, TESSERA_HCA_PAGE_BYTES);
  if (client->doorbell_fd >= 0) close(client->doorbell_fd);
  if (client->async_fd >= 0) close(client->async_fd);
  free(client);
}

struct hca_client *hca_client_new(struct hca *hca, int page_fd, int doorbell_fd, int async_fd,
                                  const uint8_t *gids) {
  struct hca_client *client = calloc(1, sizeof *client);
  if (!client) return NULL;
  client->hca = hca;
  client->page = map(page_fd, TESSERA_HCA_PAGE_BYTES);
  client->doorbell_fd = duplicate(doorbell_fd);
  client->async_fd = duplicate(async_fd);
  memcpy(client->gids, gids, sizeof client->gids);
  client->pkeys[0] = 0xffff; /* the default partition, as a full member */
  bool joined = client->page && client->doorbell_fd >= 0 && client->async_fd >= 0;
  if (joined) {
    hca_enter(hca);
    joined = hca_function_join(hca, client);
    hca_leave(hca);
  }
  if (joined) return client;
  const int error = errno;
  drop_client(client);
  errno = error;
  return NULL;
}

void hca_client_end(struct hca *hca, struct hca_client *client) {
  hca_enter(hca);
  client->ended = true;
  hca_leave(hca);
}

void hca_client_free(struct hca *hca, struct hca_client *client) {
  hca_enter(hca);
  hca_function_leave(hca, client);
  hca_leave(hca);
  drop_client(client);
}

struct hca_cq *hca_cq_new(struct hca *hca, struct hca_client *client, uint32_t handle, int page_fd,
                          uint64_t page_bytes, uint32_t count, int notify_fd) {
  struct hca_cq *cq = calloc(1, sizeof *cq);
  if (!cq) return NULL;
  *cq = (struct hca_cq){.client = client,
                        .handle = handle,
                        .page = map(page_fd, page_bytes),
                        .page_bytes = page_bytes,
                        .count = count,
                        .notify_fd = duplicate(notify_fd)};
  if (!cq->page || (notify_fd >= 0 && cq->notify_fd < 0)) {
    const int error = errno;
    hca_cq_free(hca, cq);
    errno = error;
    return NULL;
  }
  cq->entries = (tessera_hca_cqe *)(cq->page + 1);
  hca_enter(hca);
  cq->next = client->cqs;
  if (cq->next) cq->next->previous = cq;
  client->cqs = cq;
  client->cq_count++;
  if (client->rearm_left) client->rearm_left++; /* a walk in progress still reaches all others */
  hca_leave(hca);
  return cq;
}

void hca_cq_free(struct hca *hca, struct hca_cq *cq) {
  struct hca_client *client = cq->client;
  hca_enter(hca); /* no queue pair uses it any more */
  if (cq->next) cq->next->previous = cq->previous;
  if (cq->previous || client->cqs == cq) { /* its creation may have failed */
    *(cq->previous ? &cq->previous->next : &client->cqs) = cq->next;
    client->cq_count--;
  }
  if (client->rearm_next == cq) client->rearm_next = cq->next;
  hca_leave(hca);
  if (cq->page) munmap(cq->page, cq->page_bytes);
  if (cq->notify_fd >= 0) close(cq->notify_fd);
  free(cq);
}

uint64_t hca_client_rounds(struct hca *hca, struct hca_client *client) {
  hca_enter(hca);
  hca_read_soon(client); /* even if the client has not rung */
  hca_make_ready(hca, client->function);
  const uint64_t rounds = atomic_load(&client->function->rounds);
  hca_leave(hca);
  hca_ring(hca);
  return rounds;
}

enum { COPIED_AT_ONCE = 512 };

static void copy_entries(const struct hca_cq *cq, tessera_hca_cqe *entries, uint32_t count,
                         uint32_t first, uint32_t end) {
  for (uint32_t at = first; at != end; at++)
    entries[at & (count - 1)] = cq->entries[at & (cq->count - 1)];
}

bool hca_cq_resize(struct hca *hca, struct hca_cq *cq, int page_fd, uint64_t page_bytes,
                   uint32_t count) {
  tessera_hca_cq_page *page = map(page_fd, page_bytes);
  if (!page) return false;
  tessera_hca_cqe *entries = (tessera_hca_cqe *)(page + 1);
  hca_enter(hca);
  uint32_t tail = __atomic_load_n(&cq->page->tail, __ATOMIC_ACQUIRE), copied = tail;
  /* Copy a few at a time, so that the lock is never held for long. Entries that arrive meanwhile
   * are copied, too. */
  while (cq->head - copied > COPIED_AT_ONCE && cq->head - copied <= cq->count) {
    copy_entries(cq, entries, count, copied, copied + COPIED_AT_ONCE);
    copied += COPIED_AT_ONCE;
    hca_leave(hca);
    hca_enter(hca);
    tail = __atomic_load_n(&cq->page->tail, __ATOMIC_ACQUIRE);
    if (tail - copied <= cq->head - copied) copied = tail; /* consumed by the client */
  }
  const uint32_t used = cq->head - tail;
  const bool fits = used <= cq->count && used <= count && cq->head - copied <= COPIED_AT_ONCE;
  void *unused = page;
  uint64_t unused_bytes = page_bytes;
  if (fits) {
    copy_entries(cq, entries, count, copied, cq->head);
    page->head = cq->head;
    page->tail = tail;
    page->events = cq->events;
    page->armed = __atomic_load_n(&cq->page->armed, __ATOMIC_SEQ_CST);
    unused = cq->page;
    unused_bytes = cq->page_bytes;
    cq->page = page;
    cq->page_bytes = page_bytes;
    cq->entries = entries;
    cq->count = count;
  }
  hca_leave(hca);
  munmap(unused, unused_bytes);
  errno = EINVAL;
  return fits;
}

struct hca_segment *hca_segment_new(struct hca *hca, int fd, uint64_t bytes) {
  struct hca_segment *segment = calloc(1, sizeof *segment);
  if (!segment) return NULL;
  segment->base = map(fd, bytes);
  segment->bytes = bytes;
  if (segment->base && hca_absent_watch(hca->absent_fd, segment->base, bytes)) return segment;
  const int error = errno;
  if (segment->base) munmap(segment->base, bytes);
  free(segment);
  errno = error;
  return NULL;
}

void hca_segment_end(struct hca *hca, struct hca_segment *segment) {
  hca_enter(hca);
  segment->ended = true;
  hca_leave(hca);
}

void hca_segment_free(struct hca *hca, struct hca_segment *segment) {
  (void)hca; /* no region uses it any more */
  munmap(segment->base, segment->bytes);
  free(segment);
}

struct hca_region *hca_region_new(struct hca *hca, struct hca_client *client, uint32_t key,
                                  const tessera_hca_mr_create *wanted,
                                  struct hca_segment *const *segments) {
  struct hca_region *region =
      calloc(1, sizeof *region + wanted->piece_count * sizeof *region->pieces);
  if (!region) return NULL;
  *region = (struct hca_region){.client = client,
                                .key = key,
                                .pd = wanted->pd,
                                .access = wanted->access,
                                .iova = wanted->iova,
                                .bytes = wanted->bytes,
                                .piece_count = wanted->piece_count};
  uint64_t start = 0;
  for (unsigned i = 0; i < wanted->piece_count; i++) {
    region->pieces[i] = (struct hca_piece){segments[i], wanted->pieces[i].offset,
                                           wanted->pieces[i].bytes, start};
    start += wanted->pieces[i].bytes;
  }
  hca_enter(hca);
  region->serial = ++hca->next_serial;
  const bool put = hca_table_put(&hca->regions, key, region);
  hca_leave(hca);
  if (put) return region;
  free(region);
  errno = ENOMEM;
  return NULL;
}

void hca_region_free(struct hca *hca, struct hca_region *region) {
  hca_enter(hca);
  hca_table_remove(&hca->regions, region->key);
  hca_leave(hca);
  free(region);
}

struct hca_qp *hca_qp_new(struct hca *hca, struct hca_client *client,
                          const tessera_hca_qp_create *wanted, const tessera_hca_created *made,
                          int page_fd, struct hca_cq *send_cq, struct hca_cq *recv_cq,
                          struct hca_srq *srq) {
  struct hca_qp *qp = calloc(1, sizeof *qp);
  if (!qp) return NULL;
  *qp = (struct hca_qp){.client = client,
                        .send_cq = send_cq,
                        .recv_cq = recv_cq,
                        .srq = srq,
                        .type = wanted->type,
                        .page = map(page_fd, made->page_bytes),
                        .page_bytes = made->page_bytes,
                        .number = made->handle,
                        .index = made->index,
                        .pd = wanted->pd,
                        .send_count = made->first_count,
                        .recv_count = made->second_count,
                        .signal_all = wanted->signal_all != 0,
                        .block_self = wanted->block_self != 0};
  if (!qp->page) {
    const int error = errno;
    free(qp);
    errno = error;
    return NULL;
  }
  qp->send_slots = (tessera_hca_send_slot *)(qp->page + 1);
  qp->recv_slots = (tessera_hca_recv_slot *)(qp->send_slots + qp->send_count);
  hca_enter(hca);
  const bool put =
      hca_function_grow(client->function) && hca_table_put(&hca->qps, qp->number, qp);
  if (put) {
    client->qps[qp->index] = qp;
    client->function->qp_count++;
  }
  hca_leave(hca);
  if (put) return qp;
  munmap(qp->page, qp->page_bytes);
  free(qp);
  errno = ENOMEM;
  return NULL;
}

static void reset(struct hca *hca, struct hca_qp *qp) {
  hca_forget(hca, qp);
  qp->work.active = false;
  qp->broken = qp->holds = qp->drained = qp->said_last_wqe = false;
  qp->send_tail = qp->recv_tail = 0;
  memset(qp->page, 0, sizeof *qp->page);
}

/* Whether the engine has work after a state change. The engine is woken only if it has, because
 * it then polls for a while before it sleeps again, and a connection changes state three times. */
static bool has_work(const struct hca *hca, const struct hca_qp *qp) {
  const uint32_t state = qp->attributes.state;
  if (state == TESSERA_VERBS_STATE_SQD) return true;
  /* A queue pair that fails must also have its receives flushed; with a shared receive queue
   * there is an event. */
  const bool receives =
      qp->srq || qp->holds ||
      __atomic_load_n(&qp->page->recv_head, __ATOMIC_ACQUIRE) != qp->recv_tail;
  if (state == TESSERA_VERBS_STATE_ERR && receives) return true;
  return hca->waiting_count || qp->wired ||
         __atomic_load_n(&qp->page->send_head, __ATOMIC_ACQUIRE) != qp->send_tail;
}

int hca_qp_set(struct hca *hca, struct hca_qp *qp, uint32_t from,
               tessera_hca_qp_attributes *attributes, const tessera_hca_policy_change *policy) {
  hca_enter(hca);
  const bool same = qp->attributes.state == from;
  if (same) {
    const tessera_hca_qp_attributes before = qp->attributes;
    qp->attributes = *attributes;
    if (policy) hca_policy_set(hca, policy);
    if (!hca_wire_set(hca, qp, &before)) hca_fail(hca, qp);
    attributes->sq_psn = qp->attributes.sq_psn;
    attributes->rq_psn = qp->attributes.rq_psn;
    if (attributes->state != TESSERA_VERBS_STATE_SQD) qp->drained = false;
    if (attributes->state == TESSERA_VERBS_STATE_RESET) reset(hca, qp);
    if (attributes->state == TESSERA_VERBS_STATE_ERR) hca_fail(hca, qp);
    hca_enqueue(hca, qp);
  }
  const bool rings = same && has_work(hca, qp);
  hca_leave(hca);
  if (rings) hca_ring(hca);
  return same;
}

uint32_t hca_qp_state(struct hca *hca, struct hca_qp *qp) {
  hca_enter(hca);
  const uint32_t state = qp->attributes.state;
  hca_leave(hca);
  return state;
}

bool hca_qp_drains(struct hca *hca, struct hca_qp *qp) {
  hca_enter(hca);
  const bool drains = qp->attributes.state == TESSERA_VERBS_STATE_SQD &&
                      (qp->work.active || hca_wire_is_busy(qp));
  hca_leave(hca);
  return drains;
}

void hca_qp_free(struct hca *hca, struct hca_qp *qp) {
  hca_enter(hca);
  hca_forget(hca, qp);
  hca_wire_leave(hca, qp);
  hca_table_remove(&hca->qps, qp->number);
  qp->client->qps[qp->index] = NULL;
  qp->client->function->qp_count--;
  hca_leave(hca);
  munmap(qp->page, qp->page_bytes);
  free(qp);
}
