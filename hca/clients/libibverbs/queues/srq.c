/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "api.h"
#include "command/command.h"
#include "log.h"
#include "posting/post.h"
#include "verbs_calls.h"

static int make(struct tsr_context *context, struct tsr_srq *srq, const struct ibv_pd *pd,
                struct ibv_srq_attr *attr) {
  if (attr->max_sge > TESSERA_HCA_MAX_SGE) return EINVAL;
  const tessera_hca_srq_create wanted = {
      .pd = pd->handle, .recv_wr = attr->max_wr, .limit = attr->srq_limit};
  tessera_hca_created made;
  int fd;
  const int error = tsr_ask(context, TESSERA_HCA_MESSAGE_SRQ_CREATE, &wanted, sizeof wanted, &made,
                            sizeof made, &fd);
  if (error != 0) return error;
  srq->page = tsr_map(fd, made.page_bytes);
  if (!srq->page) {
    const int unmapped = errno;
    tsr_ask_handle(context, TESSERA_HCA_MESSAGE_SRQ_DESTROY, made.handle);
    return unmapped;
  }
  srq->slots = (tessera_hca_recv_slot *)(srq->page + 1);
  srq->page_bytes = made.page_bytes;
  srq->index = made.index;
  srq->count = made.second_count;
  srq->ibv.handle = made.handle;
  attr->max_wr = made.second_count;
  attr->max_sge = TESSERA_HCA_MAX_SGE;
  return 0;
}

static struct ibv_srq *create(struct ibv_pd *pd, void *srq_context, struct ibv_srq_attr *attr) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_srq *srq = calloc(1, sizeof *srq);
  if (!srq) return NULL;
  const int error = make(context, srq, pd, attr);
  if (error != 0) {
    free(srq);
    errno = error;
    return NULL;
  }
  srq->ibv.context = pd->context;
  srq->ibv.srq_context = srq_context;
  srq->ibv.pd = pd;
  pthread_mutex_init(&srq->ibv.mutex, NULL);
  pthread_cond_init(&srq->ibv.cond, NULL);
  pthread_mutex_init(&srq->posting, NULL);
  pthread_mutex_lock(&pd->context->mutex);
  srq->next = context->srqs;
  context->srqs = srq;
  pthread_mutex_unlock(&pd->context->mutex);
  return &srq->ibv;
}

struct ibv_srq *tsr_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr) {
  return create(pd, attr->srq_context, &attr->attr);
}

struct ibv_srq *tsr_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr) {
  (void)context;
  const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const bool typed = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE;
  if (attr->comp_mask & ~known || (typed && attr->srq_type != IBV_SRQT_BASIC)) {
    tsr_log("ibv_create_srq_ex: comp_mask %#x is not supported: no XRC, no tag matching",
            attr->comp_mask);
    errno = EOPNOTSUPP;
    return NULL;
  }
  if (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD && attr->pd)
    return create(attr->pd, attr->srq_context, &attr->attr);
  errno = EINVAL;
  return NULL;
}

int tsr_ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask) {
  if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) return EINVAL;
  if (mask & IBV_SRQ_MAX_WR) { /* the device does not have this capability */
    tsr_log("ibv_modify_srq: resizing is not supported");
    return EOPNOTSUPP;
  }
  if (!(mask & IBV_SRQ_LIMIT)) return 0;
  const tessera_hca_srq_modify wanted = {.handle = srq->handle, .limit = attr->srq_limit};
  return tsr_ask(tsr_of(srq->context), TESSERA_HCA_MESSAGE_SRQ_MODIFY, &wanted, sizeof wanted,
                 NULL, 0, NULL);
}

int tsr_ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr) {
  const struct tsr_srq *srq = (const struct tsr_srq *)ibv;
  const tessera_hca_handle wanted = {.handle = ibv->handle};
  tessera_hca_srq_modify now;
  const int error = tsr_ask(tsr_of(ibv->context), TESSERA_HCA_MESSAGE_SRQ_QUERY, &wanted,
                            sizeof wanted, &now, sizeof now, NULL);
  if (error != 0) return error;
  *attr = (struct ibv_srq_attr){
      .max_wr = srq->count, .max_sge = TESSERA_HCA_MAX_SGE, .srq_limit = now.limit};
  return 0;
}

int tsr_ibv_destroy_srq(struct ibv_srq *ibv) {
  struct tsr_srq *srq = (struct tsr_srq *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_SRQ_DESTROY, ibv->handle);
  if (error != 0 && !context->dead) return error;
  pthread_mutex_lock(&ibv->context->mutex);
  for (struct tsr_srq **link = &context->srqs; *link; link = &(*link)->next) {
    if (*link != srq) continue;
    *link = srq->next;
    break;
  }
  pthread_mutex_unlock(&ibv->context->mutex);
  munmap(srq->page, srq->page_bytes);
  free(srq);
  return 0;
}

int tsr_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct tsr_srq *srq = (struct tsr_srq *)ibv;
  int error = 0;
  pthread_mutex_lock(&srq->posting);
  uint32_t head = srq->head;
  for (; wr; wr = wr->next) {
    const uint32_t tail = __atomic_load_n(&srq->page->tail, __ATOMIC_ACQUIRE);
    error = head - tail >= srq->count
                ? ENOMEM
                : tsr_fill_recv(tsr_of(ibv->context), &srq->slots[head & (srq->count - 1)], wr);
    if (error != 0) {
      *bad = wr;
      break;
    }
    head++;
  }
  if (head != srq->head) {
    srq->head = head;
    __atomic_store_n(&srq->page->head, head, __ATOMIC_RELEASE);
    tsr_ring_srq(tsr_of(ibv->context), srq->index);
  }
  pthread_mutex_unlock(&srq->posting);
  return error;
}
