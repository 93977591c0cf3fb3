/* Completion queues. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "lifetime.h"
#include "verbs_calls.h"

/* A program that polls an empty queue occupies a CPU that hcad may need to fill the queue. */
enum {
  POLLS_UNTIL_YIELD = 64,
  POLLS_UNTIL_LOOK = 1 << 10,
  POLLS_UNTIL_DOZE = 1 << 12, /* about 0.2 ms */
  DOZE_NS = 20000,
};

/* Empty polls of this thread since it last got a completion. Queues are not counted separately,
 * because one may stay empty while another has work. */
static _Thread_local uint32_t polls_in_vain;

struct ibv_cq *tsr_ibv_create_cq(struct ibv_context *ibv, int entries, void *cq_context,
                                 struct ibv_comp_channel *channel, int vector) {
  struct tsr_context *context = tsr_of(ibv);
  errno = EINVAL;
  if (entries < 1 || vector != 0) return NULL;
  struct tsr_cq *cq = calloc(1, sizeof *cq);
  if (!cq) return NULL;
  const tessera_hca_cq_create wanted = {.entries = (uint32_t)entries,
                                        .channel = channel ? ((struct tsr_channel *)channel)->handle
                                                           : 0};
  tessera_hca_created made = {0};
  int fd;
  int error = tsr_ask(context, TESSERA_HCA_MESSAGE_CQ_CREATE, &wanted, sizeof wanted, &made,
                      sizeof made, &fd);
  if (error == 0) {
    error = tsr_cq_init(cq, ibv, channel, cq_context, &made, fd);
    if (error != 0) tsr_ask_handle(context, TESSERA_HCA_MESSAGE_CQ_DESTROY, made.handle);
  }
  if (error == 0) return &cq->ibv;
  free(cq);
  errno = error;
  return NULL;
}

int tsr_cq_init(struct tsr_cq *cq, struct ibv_context *ibv, struct ibv_comp_channel *channel,
                void *cq_context, const tessera_hca_created *made, int fd) {
  struct tsr_context *context = tsr_of(ibv);
  cq->page = tsr_map(fd, made->page_bytes);
  if (!cq->page) return errno;
  cq->ibv = (struct ibv_cq){.context = ibv,
                            .channel = channel,
                            .cq_context = cq_context,
                            .handle = made->handle,
                            .cqe = (int)made->first_count};
  cq->entries = (tessera_hca_cqe *)(cq->page + 1);
  cq->page_bytes = made->page_bytes;
  cq->count = made->first_count;
  pthread_mutex_init(&cq->ibv.mutex, NULL);
  pthread_cond_init(&cq->ibv.cond, NULL);
  pthread_mutex_init(&cq->polling, NULL);
  pthread_mutex_lock(&ibv->mutex);
  cq->next = context->cqs;
  context->cqs = cq;
  if (channel) channel->refcnt++;
  pthread_mutex_unlock(&ibv->mutex);
  return 0;
}

/* Request a page for this many entries; hcad removes the previous page. */
static int ask_page(struct tsr_cq *cq, uint32_t entries, tessera_hca_created *made, int *fd) {
  const tessera_hca_cq_resize wanted = {.handle = cq->ibv.handle, .entries = entries};
  return tsr_ask(tsr_of(cq->ibv.context), TESSERA_HCA_MESSAGE_CQ_RESIZE, &wanted, sizeof wanted,
                 made, sizeof *made, fd);
}

/* Return the size of a page for this many entries, rounded up to a power of two. */
static uint64_t page_bytes(uint32_t entries) {
  uint64_t count = 1;
  while (count < entries) count *= 2;
  const uint64_t bytes = sizeof(tessera_hca_cq_page) + count * sizeof(tessera_hca_cqe);
  return (bytes + TESSERA_HCA_PAGE_BYTES - 1) & ~(TESSERA_HCA_PAGE_BYTES - 1);
}

/* Replace the old page by a new one of the same size; if that fails, the queue is unusable. */
static void move_back(struct tsr_cq *cq) {
  tessera_hca_created made;
  int fd;
  const int error = ask_page(cq, cq->count, &made, &fd);
  if (error == 0 && tsr_map_at(cq->page, fd, cq->page_bytes)) return;
  tsr_of(cq->ibv.context)->dead = true;
}

static int move(struct tsr_cq *cq, uint32_t entries) {
  const uint64_t bytes = page_bytes(entries);
  /* Reserve the address range before hcad removes the old page; after that, little can fail. */
  void *place =
      mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return errno;
  tessera_hca_created made;
  int fd;
  int error = ask_page(cq, entries, &made, &fd);
  const bool replaced = error == 0;
  if (replaced && !tsr_map_at(place, fd, bytes)) error = errno;
  if (error != 0) {
    munmap(place, bytes);
    if (replaced) move_back(cq);
    return error;
  }
  munmap(cq->page, cq->page_bytes);
  cq->page = place;
  cq->page_bytes = bytes;
  cq->entries = (tessera_hca_cqe *)(cq->page + 1);
  cq->count = made.first_count;
  cq->ibv.cqe = (int)made.first_count;
  return 0;
}

int tsr_ibv_resize_cq(struct ibv_cq *ibv, int entries) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  if (entries < 1 || entries > (int)TESSERA_HCA_MAX_CQE) return EINVAL;
  pthread_mutex_lock(&ibv->context->mutex);
  pthread_mutex_lock(&cq->polling);
  const int error = move(cq, (uint32_t)entries);
  pthread_mutex_unlock(&cq->polling);
  pthread_mutex_unlock(&ibv->context->mutex);
  return error;
}

static bool has_queue_pairs(const struct ibv_cq *ibv) {
  for (const struct tsr_qp *qp = tsr_of(ibv->context)->qps; qp; qp = qp->next)
    if (qp->ibv.send_cq == ibv || qp->ibv.recv_cq == ibv) return true;
  return false;
}

int tsr_ibv_destroy_cq(struct ibv_cq *ibv) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_CQ_DESTROY, ibv->handle);
  if (error != 0 && !context->dead) return error;
  pthread_mutex_lock(&ibv->context->mutex);
  if (has_queue_pairs(ibv)) { /* hcad checks this, but has gone */
    pthread_mutex_unlock(&ibv->context->mutex);
    return EBUSY;
  }
  pthread_mutex_unlock(&ibv->context->mutex);
  tsr_cq_release(cq);
  return 0;
}

void tsr_cq_release(struct tsr_cq *cq) {
  struct ibv_cq *ibv = &cq->ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  pthread_mutex_lock(&ibv->context->mutex);
  for (struct tsr_cq **link = &context->cqs; *link; link = &(*link)->next) {
    if (*link != cq) continue;
    *link = cq->next;
    break;
  }
  if (ibv->channel) ibv->channel->refcnt--;
  pthread_mutex_unlock(&ibv->context->mutex);
  /* As verbs require: events returned to the program must have been acknowledged. */
  pthread_mutex_lock(&ibv->mutex);
  while (ibv->comp_events_completed != cq->events_given)
    pthread_cond_wait(&ibv->cond, &ibv->mutex);
  pthread_mutex_unlock(&ibv->mutex);
  munmap(cq->page, cq->page_bytes);
  free(cq);
}

static void read_entry(const tessera_hca_cqe *entry, struct ibv_wc *wc) {
  *wc = (struct ibv_wc){.wr_id = entry->id,
                        .status = (int)entry->status,
                        .opcode = (int)entry->opcode,
                        .vendor_err = entry->vendor_error,
                        .byte_len = entry->bytes,
                        .imm_data = entry->immediate,
                        .qp_num = entry->qpn,
                        .src_qp = entry->source_qpn,
                        .wc_flags = entry->flags,
                        .pkey_index = entry->pkey_index,
                        .sl = entry->service_level};
}

/* hcad, which fills the queue, may be waiting for this very CPU. sched_yield() does not give the
 * CPU to a process of another control group, such as hcad's when this is a pod, so a thread
 * sleeps after many empty polls. */
static void let_others_run(void) {
  if (polls_in_vain < POLLS_UNTIL_DOZE) {
    sched_yield();
    return;
  }
  const struct timespec doze = {.tv_nsec = DOZE_NS};
  nanosleep(&doze, NULL);
}

int tsr_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  int taken = 0;
  pthread_mutex_lock(&cq->polling);
  const uint32_t head = __atomic_load_n(&cq->page->head, __ATOMIC_SEQ_CST); /* after arming */
  const uint32_t before = cq->tail;
  while (taken < count && cq->tail != head) {
    const tessera_hca_cqe *entry = &cq->entries[cq->tail++ & (cq->count - 1)];
    if (entry->qpn != TSR_NO_QPN) read_entry(entry, &wc[taken++]);
  }
  if (cq->tail != before) {
    __atomic_store_n(&cq->page->tail, cq->tail, __ATOMIC_RELEASE);
    cq->empty_polls = 0;
  }
  const uint32_t empty = taken ? 0 : ++cq->empty_polls;
  pthread_mutex_unlock(&cq->polling);
  if (taken) {
    polls_in_vain = 0;
    return taken;
  }
  if (++polls_in_vain % POLLS_UNTIL_YIELD == 0) let_others_run();
  const bool dead = tsr_of(ibv->context)->dead ||
                    (empty % POLLS_UNTIL_LOOK == 0 && tsr_is_dead(tsr_of(ibv->context)));
  if (!dead) return 0;
  pthread_mutex_lock(&cq->polling);
  const bool more = tsr_flush_lost(cq);
  pthread_mutex_unlock(&cq->polling);
  if (more) return count ? tsr_poll_cq(ibv, count, wc) : 0;
  return empty % POLLS_UNTIL_LOOK == 0 ? -1 : 0; /* no completion will come */
}

void tsr_forget_completions(struct ibv_cq *ibv, uint32_t qpn) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  pthread_mutex_lock(&cq->polling);
  const uint32_t head = __atomic_load_n(&cq->page->head, __ATOMIC_ACQUIRE);
  for (uint32_t at = cq->tail; at != head; at++) {
    tessera_hca_cqe *entry = &cq->entries[at & (cq->count - 1)];
    if (entry->qpn == qpn) entry->qpn = TSR_NO_QPN;
  }
  pthread_mutex_unlock(&cq->polling);
}

int tsr_req_notify_cq(struct ibv_cq *ibv, int solicited_only) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  /* Protects against a resize. Not `polling`, which a program may hold through
   * ibv_start_poll(). */
  pthread_mutex_lock(&ibv->context->mutex);
  __atomic_store_n(&cq->page->armed, solicited_only ? 2 : 1, __ATOMIC_SEQ_CST);
  /* Hardware notifies at once if there are entries that were not polled; programs rely on that. */
  if (!solicited_only && __atomic_load_n(&cq->page->head, __ATOMIC_SEQ_CST) !=
                             __atomic_load_n(&cq->page->tail, __ATOMIC_RELAXED))
    tsr_ring_armed(tsr_of(ibv->context));
  pthread_mutex_unlock(&ibv->context->mutex);
  return 0;
}
