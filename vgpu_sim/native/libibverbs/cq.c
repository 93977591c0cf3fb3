/* Completion channels, completion queues, and asynchronous events. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "command.h"
#include "verbs_calls.h"

/* Who polls an empty queue keeps a CPU from whoever is to fill it, where there are few. */
enum { POLLS_UNTIL_YIELD = 64, POLLS_UNTIL_LOOK = 1 << 14 };

struct channel {
  struct ibv_comp_channel ibv;
  uint32_t handle;
};

struct ibv_comp_channel *tsr_ibv_create_comp_channel(struct ibv_context *context) {
  struct channel *channel = calloc(1, sizeof *channel);
  if (!channel) return NULL;
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(context), TESSERA_HCA_MESSAGE_CHANNEL_CREATE, NULL, 0, &made,
                            sizeof made, &channel->ibv.fd);
  channel->ibv.context = context;
  channel->handle = made.handle;
  if (error == 0) return &channel->ibv;
  free(channel);
  errno = error;
  return NULL;
}

int tsr_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv) {
  struct channel *channel = (struct channel *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  pthread_mutex_lock(&ibv->context->mutex);
  const bool used = ibv->refcnt != 0;
  pthread_mutex_unlock(&ibv->context->mutex);
  if (used) return EBUSY;
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_CHANNEL_DESTROY, channel->handle);
  if (error != 0 && !context->dead) return error;
  close(ibv->fd);
  free(channel);
  return 0;
}

struct ibv_cq *tsr_ibv_create_cq(struct ibv_context *ibv, int entries, void *cq_context,
                                 struct ibv_comp_channel *channel, int vector) {
  struct tsr_context *context = tsr_of(ibv);
  errno = EINVAL;
  if (entries < 1 || vector != 0) return NULL;
  struct tsr_cq *cq = calloc(1, sizeof *cq);
  if (!cq) return NULL;
  const tessera_hca_cq_create wanted = {.entries = (uint32_t)entries,
                                        .channel = channel ? ((struct channel *)channel)->handle
                                                           : 0};
  tessera_hca_created made = {0};
  int fd;
  int error = tsr_ask(context, TESSERA_HCA_MESSAGE_CQ_CREATE, &wanted, sizeof wanted, &made,
                      sizeof made, &fd);
  if (error == 0) {
    cq->page = tsr_map(fd, made.page_bytes);
    if (!cq->page) error = errno;
  }
  if (error != 0) {
    free(cq);
    errno = error;
    return NULL;
  }
  cq->ibv = (struct ibv_cq){.context = ibv,
                            .channel = channel,
                            .cq_context = cq_context,
                            .handle = made.handle,
                            .cqe = (int)made.first_count};
  cq->entries = (const tessera_hca_cqe *)(cq->page + 1);
  cq->page_bytes = made.page_bytes;
  cq->count = made.first_count;
  pthread_mutex_init(&cq->ibv.mutex, NULL);
  pthread_cond_init(&cq->ibv.cond, NULL);
  pthread_mutex_init(&cq->polling, NULL);
  pthread_mutex_lock(&ibv->mutex);
  cq->next = context->cqs;
  context->cqs = cq;
  if (channel) channel->refcnt++;
  pthread_mutex_unlock(&ibv->mutex);
  return &cq->ibv;
}

int tsr_ibv_destroy_cq(struct ibv_cq *ibv) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_CQ_DESTROY, ibv->handle);
  if (error != 0 && !context->dead) return error;
  pthread_mutex_lock(&ibv->context->mutex);
  for (struct tsr_cq **link = &context->cqs; *link; link = &(*link)->next) {
    if (*link != cq) continue;
    *link = cq->next;
    break;
  }
  if (ibv->channel) ibv->channel->refcnt--;
  pthread_mutex_unlock(&ibv->context->mutex);
  /* As verbs have it: events that were given must have been acknowledged. */
  pthread_mutex_lock(&ibv->mutex);
  while (ibv->comp_events_completed != cq->events_given)
    pthread_cond_wait(&ibv->cond, &ibv->mutex);
  pthread_mutex_unlock(&ibv->mutex);
  munmap(cq->page, cq->page_bytes);
  free(cq);
  return 0;
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
                        .wc_flags = entry->flags};
}

int tsr_poll_cq(struct ibv_cq *ibv, int count, struct ibv_wc *wc) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  int taken = 0;
  pthread_mutex_lock(&cq->polling);
  const uint32_t head = __atomic_load_n(&cq->page->head, __ATOMIC_SEQ_CST); /* after arming */
  while (taken < count && cq->tail != head)
    read_entry(&cq->entries[cq->tail++ & (cq->count - 1)], &wc[taken++]);
  if (taken) {
    __atomic_store_n(&cq->page->tail, cq->tail, __ATOMIC_RELEASE);
    cq->empty_polls = 0;
  }
  const uint32_t empty = taken ? 0 : ++cq->empty_polls;
  pthread_mutex_unlock(&cq->polling);
  if (taken) return taken;
  if (empty % POLLS_UNTIL_YIELD == 0) sched_yield();
  return empty % POLLS_UNTIL_LOOK == 0 && tsr_is_dead(tsr_of(ibv->context)) ? -1 : 0;
}

int tsr_req_notify_cq(struct ibv_cq *ibv, int solicited_only) {
  struct tsr_cq *cq = (struct tsr_cq *)ibv;
  __atomic_store_n(&cq->page->armed, solicited_only ? 2 : 1, __ATOMIC_SEQ_CST);
  /* Hardware notifies at once of entries that were not taken; programs rely on it. */
  if (!solicited_only && __atomic_load_n(&cq->page->head, __ATOMIC_SEQ_CST) != cq->tail)
    tsr_ring_armed(tsr_of(ibv->context));
  return 0;
}

/* The queue of the channel that has an event which nobody was given; NULL: none. */
static struct tsr_cq *take_event(struct ibv_comp_channel *channel) {
  pthread_mutex_lock(&channel->context->mutex);
  struct tsr_cq *cq = tsr_of(channel->context)->cqs;
  for (; cq; cq = cq->next) {
    if (cq->ibv.channel != channel) continue;
    if (__atomic_load_n(&cq->page->events, __ATOMIC_ACQUIRE) == cq->events_seen) continue;
    cq->events_seen++;
    pthread_mutex_lock(&cq->ibv.mutex);
    cq->events_given++;
    pthread_mutex_unlock(&cq->ibv.mutex);
    break;
  }
  pthread_mutex_unlock(&channel->context->mutex);
  return cq;
}

int tsr_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context) {
  for (;;) {
    char byte;
    const ssize_t got = read(channel->fd, &byte, 1);
    if (got <= 0) {
      if (got == 0) errno = EIO; /* hcad has gone */
      return -1;
    }
    struct tsr_cq *found = take_event(channel);
    if (!found) continue; /* its queue was destroyed */
    *cq = &found->ibv;
    *cq_context = found->ibv.cq_context;
    return 0;
  }
}

void tsr_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

static bool find_object(struct ibv_context *ibv, const tessera_hca_event *raw,
                        struct ibv_async_event *event) {
  struct tsr_context *context = tsr_of(ibv);
  bool found = false;
  pthread_mutex_lock(&ibv->mutex);
  if (raw->type == TESSERA_VERBS_EVENT_CQ_ERR) {
    for (struct tsr_cq *cq = context->cqs; cq; cq = cq->next)
      if (cq->ibv.handle == raw->handle) event->element.cq = &cq->ibv, found = true;
  } else {
    for (struct tsr_qp *qp = context->qps; qp; qp = qp->next)
      if (qp->ibv.handle == raw->handle) event->element.qp = &qp->ibv, found = true;
  }
  pthread_mutex_unlock(&ibv->mutex);
  event->event_type = (int)raw->type;
  return found;
}

int tsr_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
  for (;;) {
    tessera_hca_event raw;
    const ssize_t got = read(context->async_fd, &raw, sizeof raw);
    if (got != sizeof raw) {
      if (got >= 0) errno = EIO; /* hcad has gone */
      return -1;
    }
    if (find_object(context, &raw, event)) return 0;
  }
}

/* Objects may be destroyed whether or not their events were acknowledged. */
void tsr_ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
