/* Completion channels, completion events and asynchronous events. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "lifetime.h"

void tsr_channel_init(struct tsr_channel *channel, struct ibv_context *context, uint32_t handle) {
  channel->ibv.context = context;
  channel->handle = handle;
}

struct ibv_comp_channel *tsr_ibv_create_comp_channel(struct ibv_context *context) {
  struct tsr_channel *channel = calloc(1, sizeof *channel);
  if (!channel) return NULL;
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(context), TESSERA_HCA_MESSAGE_CHANNEL_CREATE, NULL, 0, &made,
                            sizeof made, &channel->ibv.fd);
  tsr_channel_init(channel, context, made.handle);
  if (error == 0) return &channel->ibv;
  free(channel);
  errno = error;
  return NULL;
}

int tsr_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv) {
  struct tsr_channel *channel = (struct tsr_channel *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  pthread_mutex_lock(&ibv->context->mutex);
  const bool used = ibv->refcnt != 0;
  pthread_mutex_unlock(&ibv->context->mutex);
  if (used) return EBUSY;
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_CHANNEL_DESTROY, channel->handle);
  if (error != 0 && !context->dead) return error;
  tsr_channel_release(channel);
  return 0;
}

void tsr_channel_release(struct tsr_channel *channel) {
  close(channel->ibv.fd);
  free(channel);
}

/* Take the next queue of the channel with an undelivered event; NULL: there is none. */
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
    if (got < 0) return -1;
    if (got == 0) tsr_mark_lost(tsr_of(channel->context));
    struct tsr_cq *found = got == 0 ? tsr_lost_event(channel) : take_event(channel);
    if (got == 0 && !found) {
      errno = EIO; /* hcad has gone, and no event will come */
      return -1;
    }
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
  if (raw->type == TESSERA_VERBS_EVENT_SRQ_ERR ||
      raw->type == TESSERA_VERBS_EVENT_SRQ_LIMIT_REACHED) {
    for (struct tsr_srq *srq = context->srqs; srq; srq = srq->next)
      if (srq->ibv.handle == raw->handle) event->element.srq = &srq->ibv, found = true;
  } else if (raw->type == TESSERA_VERBS_EVENT_CQ_ERR) {
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
    if (got < 0) return -1;
    if (got != sizeof raw) { /* hcad has gone: reported once, as DEVICE_FATAL */
      tsr_mark_lost(tsr_of(context));
      errno = EIO;
      if (__atomic_exchange_n(&tsr_of(context)->said_fatal, true, __ATOMIC_RELAXED)) return -1;
      *event = (struct ibv_async_event){.event_type = TESSERA_VERBS_EVENT_DEVICE_FATAL};
      return 0;
    }
    if (find_object(context, &raw, event)) return 0;
  }
}

/* Objects may be destroyed whether or not their events were acknowledged. */
void tsr_ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }
