/* tessera_create_qp for librdmacm: creates a queue pair, and the completion queues with channels
 * that the program did not pass, by one exchange with hcad. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "lifetime.h"

enum { RECEIVING, SENDING, DIRECTIONS };
enum { MOST_PARTS = 2 * DIRECTIONS + 2 };

struct wanted_cq {
  struct tsr_channel *channel; /* NULL: the program passes one */
  struct tsr_cq *cq;
  tessera_hca_cq_create request;
  tessera_hca_handle channel_made;
  tessera_hca_created made;
  int channel_fd, fd;
};

struct wanted {
  struct wanted_cq cqs[DIRECTIONS];
  struct tsr_qp *qp;
  tessera_hca_qp_create request;
  tessera_hca_created made;
  int fd;
  tessera_hca_qp_modify initial;
  tessera_hca_qp_attributes now;
  struct tsr_part parts[MOST_PARTS];
  unsigned count;
};

static struct tsr_part *add(struct wanted *all, uint16_t type, const void *payload, uint32_t bytes,
                            void *answer, uint32_t answer_bytes, int *fd) {
  struct tsr_part *part = &all->parts[all->count++];
  *part = (struct tsr_part){.type = type,
                            .payload = payload,
                            .bytes = bytes,
                            .answer = answer,
                            .answer_bytes = answer_bytes,
                            .fd = fd,
                            .error = ECANCELED};
  if (fd) *fd = -1;
  return part;
}

/* Add the requests for a completion queue and its channel; 0 or an errno value. */
static int add_cq(struct wanted *all, struct wanted_cq *one, uint32_t entries) {
  one->channel = calloc(1, sizeof *one->channel);
  one->cq = calloc(1, sizeof *one->cq);
  one->request.entries = entries ? entries : 1;
  add(all, TESSERA_HCA_MESSAGE_CHANNEL_CREATE, NULL, 0, &one->channel_made,
      sizeof one->channel_made, &one->channel_fd);
  struct tsr_part *part = add(all, TESSERA_HCA_MESSAGE_CQ_CREATE, &one->request,
                              sizeof one->request, &one->made, sizeof one->made, &one->fd);
  part->names[0] = (struct tsr_naming){&one->request.channel, all->count - 2};
  return one->channel && one->cq ? 0 : ENOMEM;
}

static int prepare(struct wanted *all, struct ibv_pd *pd, const struct ibv_qp_init_attr *attr,
                   const struct ibv_qp_attr *initial, int mask) {
  uint32_t *const names[DIRECTIONS] = {&all->request.recv_cq, &all->request.send_cq};
  const uint32_t entries[DIRECTIONS] = {attr->cap.max_recv_wr, attr->cap.max_send_wr};
  const bool brought[DIRECTIONS] = {attr->recv_cq, attr->send_cq};
  struct tsr_naming makes[DIRECTIONS] = {{0}};
  int error = tsr_qp_make_request(pd, attr, false, &all->request);
  for (unsigned i = 0; i < DIRECTIONS && error == 0; i++) {
    if (brought[i]) continue;
    error = add_cq(all, &all->cqs[i], entries[i]);
    makes[i] = (struct tsr_naming){names[i], all->count - 1};
  }
  all->qp = calloc(1, sizeof *all->qp);
  struct tsr_part *part = add(all, TESSERA_HCA_MESSAGE_QP_CREATE, &all->request,
                              sizeof all->request, &all->made, sizeof all->made, &all->fd);
  part->names[0] = makes[0];
  part->names[1] = makes[1];
  tsr_qp_modification(initial, mask, &all->initial);
  part = add(all, TESSERA_HCA_MESSAGE_QP_MODIFY, &all->initial, sizeof all->initial, &all->now,
             sizeof all->now, NULL);
  part->names[0] = (struct tsr_naming){&all->initial.handle, all->count - 2};
  return error ? error : all->qp ? 0 : ENOMEM;
}

/* Initialise the objects. Returns 0 or an errno value; then the objects that were initialised
 * before the error are in the context's lists. */
static int shape(struct wanted *all, struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                 void *cq_context) {
  struct ibv_cq **const given[DIRECTIONS] = {&attr->recv_cq, &attr->send_cq};
  for (unsigned i = 0; i < DIRECTIONS; i++) {
    struct wanted_cq *one = &all->cqs[i];
    if (!one->cq) continue;
    tsr_channel_init(one->channel, pd->context, one->channel_made.handle);
    one->channel->ibv.fd = one->channel_fd;
    const int error = tsr_cq_init(one->cq, pd->context, &one->channel->ibv, cq_context, &one->made,
                                  one->fd);
    one->fd = -1;
    if (error != 0) return error;
    *given[i] = &one->cq->ibv;
  }
  const int error = tsr_qp_init(all->qp, pd, attr, &all->made, all->fd);
  all->fd = -1;
  if (error == 0) tsr_qp_apply(&all->qp->ibv, &all->now);
  return error;
}

static void undo(struct wanted *all, struct tsr_context *context, struct ibv_qp_init_attr *attr) {
  struct ibv_cq **const given[DIRECTIONS] = {&attr->recv_cq, &attr->send_cq};
  for (unsigned i = all->count; i-- > 0;) {
    const struct tsr_part *part = &all->parts[i];
    if (part->error != 0 || part->type == TESSERA_HCA_MESSAGE_QP_MODIFY) continue;
    const uint16_t destroy = part->type == TESSERA_HCA_MESSAGE_QP_CREATE
                                 ? TESSERA_HCA_MESSAGE_QP_DESTROY
                             : part->type == TESSERA_HCA_MESSAGE_CQ_CREATE
                                 ? TESSERA_HCA_MESSAGE_CQ_DESTROY
                                 : TESSERA_HCA_MESSAGE_CHANNEL_DESTROY;
    tsr_ask_handle(context, destroy, *(const uint32_t *)part->answer);
    if (part->fd && *part->fd >= 0) close(*part->fd);
  }
  free(all->qp);
  for (unsigned i = 0; i < DIRECTIONS; i++) {
    struct wanted_cq *one = &all->cqs[i];
    if (one->cq && *given[i] == &one->cq->ibv) {
      tsr_cq_release(one->cq);
      *given[i] = NULL;
    } else {
      free(one->cq);
    }
    free(one->channel);
  }
}

struct ibv_qp *tsr_tessera_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                                     void *cq_context, struct ibv_qp_attr *initial, int mask) {
  struct tsr_context *context = tsr_of(pd->context);
  struct wanted all = {0};
  int error = prepare(&all, pd, attr, initial, mask);
  if (error == 0) error = tsr_ask_all(context, all.parts, all.count);
  if (error == 0) error = shape(&all, pd, attr, cq_context);
  if (error == 0) return &all.qp->ibv;
  undo(&all, context, attr);
  errno = error;
  return NULL;
}

int tsr_tessera_modify_qp_twice(struct ibv_qp *qp, struct ibv_qp_attr *attrs, int *masks) {
  tessera_hca_qp_modify wanted[2];
  tessera_hca_qp_attributes now[2];
  struct tsr_part parts[2];
  for (unsigned i = 0; i < 2; i++) {
    tsr_qp_modification(&attrs[i], masks[i], &wanted[i]);
    wanted[i].handle = qp->handle;
    parts[i] = (struct tsr_part){.type = TESSERA_HCA_MESSAGE_QP_MODIFY,
                                 .payload = &wanted[i],
                                 .bytes = sizeof wanted[i],
                                 .answer = &now[i],
                                 .answer_bytes = sizeof now[i]};
  }
  const int error = tsr_ask_all(tsr_of(qp->context), parts, 2);
  for (unsigned i = 0; i < 2; i++)
    if (parts[i].error == 0) tsr_qp_apply(qp, &now[i]);
  return error;
}

int tsr_tessera_destroy_qp(struct ibv_qp *qp, struct ibv_cq *recv_cq, struct ibv_cq *send_cq) {
  struct tsr_context *context = tsr_of(qp->context);
  struct ibv_cq *const cqs[DIRECTIONS] = {recv_cq, send_cq};
  struct tsr_channel *channels[DIRECTIONS] = {NULL, NULL};
  tessera_hca_handle named[1 + 2 * DIRECTIONS] = {{.handle = qp->handle}};
  struct tsr_part parts[1 + 2 * DIRECTIONS] = {{.type = TESSERA_HCA_MESSAGE_QP_DESTROY}};
  unsigned count = 1;
  for (unsigned i = 0; i < DIRECTIONS; i++) {
    if (!cqs[i]) continue;
    channels[i] = (struct tsr_channel *)cqs[i]->channel;
    named[count].handle = cqs[i]->handle;
    parts[count++].type = TESSERA_HCA_MESSAGE_CQ_DESTROY;
    named[count].handle = channels[i]->handle;
    parts[count++].type = TESSERA_HCA_MESSAGE_CHANNEL_DESTROY;
  }
  for (unsigned i = 0; i < count; i++) {
    parts[i].payload = &named[i];
    parts[i].bytes = sizeof named[i];
  }
  const int error = tsr_ask_all(context, parts, count);
  const bool dead = context->dead; /* with hcad its objects have gone */
  if (dead || parts[0].error == 0) tsr_qp_release((struct tsr_qp *)qp);
  count = 1;
  for (unsigned i = 0; i < DIRECTIONS; i++) {
    if (!cqs[i]) continue;
    if (dead || parts[count].error == 0) tsr_cq_release((struct tsr_cq *)cqs[i]);
    if (dead || parts[count + 1].error == 0) tsr_channel_release(channels[i]);
    count += 2;
  }
  return dead ? 0 : error;
}
