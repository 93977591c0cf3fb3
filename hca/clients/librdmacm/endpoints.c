/* Endpoints (rdma_create_ep): an id with everything needed to connect, or to wait for
 * connections. */
#include <errno.h>
#include <stdlib.h>

#include "api.h"
#include "ids.h"

static int prepare(struct rdma_cm_id *rdma, struct rdma_addrinfo *info, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *attr) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  rdma->qp_type = info->ai_qp_type;
  if (info->ai_flags & RAI_PASSIVE) {
    if (tsr_rdma_bind_addr(rdma, info->ai_src_addr) != 0) return -1;
    rdma->pd = pd ? pd : rdma->pd;
    if (!attr) return 0;
    id->init = malloc(sizeof *id->init);
    if (!id->init) return tsr_cm_result(ENOMEM);
    *id->init = *attr;
    id->init->qp_type = rdma->qp_type;
    return 0;
  }
  if (tsr_rdma_resolve_addr(rdma, info->ai_src_addr, info->ai_dst_addr, 2000) != 0) return -1;
  if (tsr_rdma_resolve_route(rdma, 2000) != 0) return -1;
  if (!attr) return 0;
  attr->qp_type = rdma->qp_type;
  return tsr_rdma_create_qp(rdma, pd, attr);
}

int tsr_rdma_create_ep(struct rdma_cm_id **made, struct rdma_addrinfo *info, struct ibv_pd *pd,
                       struct ibv_qp_init_attr *attr) {
  struct rdma_cm_id *rdma;
  if (tsr_rdma_create_id(NULL, &rdma, NULL, info->ai_port_space) != 0) return -1;
  if (prepare(rdma, info, pd, attr) == 0) {
    *made = rdma;
    return 0;
  }
  const int error = errno;
  tsr_rdma_destroy_ep(rdma);
  return tsr_cm_result(error);
}

void tsr_rdma_destroy_ep(struct rdma_cm_id *rdma) {
  tsr_rdma_destroy_qp(rdma);
  tsr_rdma_destroy_id(rdma);
}

int tsr_rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **made) {
  struct tsr_id *listener = (struct tsr_id *)listen;
  if (!listener->sync) return tsr_cm_result(EINVAL);
  if (tsr_complete(listener) != 0) return -1;
  struct rdma_cm_event *event = listen->event;
  if (event->event != TESSERA_CM_EVENT_TYPE_CONNECT_REQUEST) return tsr_cm_result(EINVAL);
  struct rdma_cm_id *rdma = event->id;
  int failed = tsr_rdma_migrate_id(rdma, NULL);
  if (!failed && listener->init) {
    struct ibv_qp_init_attr attr = *listener->init;
    failed = tsr_rdma_create_qp(rdma, listen->pd, &attr);
  }
  if (failed) {
    const int error = errno;
    tsr_rdma_reject(rdma, NULL, 0);
    tsr_rdma_destroy_ep(rdma);
    return tsr_cm_result(error);
  }
  rdma->event = event; /* its private data is valid until the next call */
  listen->event = NULL;
  *made = rdma;
  return 0;
}
