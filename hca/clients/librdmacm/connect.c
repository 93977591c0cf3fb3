/* Connections: rdma_connect, rdma_accept, rdma_reject, rdma_disconnect and their variants. */
#include <errno.h>
#include <string.h>

#include "api.h"
#include "ids.h"

enum { COMMUNICATION_ESTABLISHED = 4 }; /* IBV_EVENT_COMM_EST */

static bool is_datagrams(const struct tsr_id *id) {
  return id->rdma.qp_type == TESSERA_VERBS_QP_TYPE_UD;
}

static uint8_t limited(uint8_t wanted, uint8_t otherwise) {
  const uint8_t most = TESSERA_HCA_MAX_RD_ATOMIC;
  const uint8_t chosen = wanted == RDMA_MAX_RESP_RES ? otherwise : wanted;
  return chosen < most ? chosen : most;
}

static int fill(const struct tsr_id *id, const struct rdma_conn_param *param,
                tessera_cm_connect *out) {
  *out = (tessera_cm_connect){.handle = id->handle,
                              .qkey = id->qkey,
                              .retry_count = 7,
                              .rnr_retry_count = 7,
                              .traffic_class = id->traffic_class,
                              .ack_timeout = id->ack_timeout};
  if (id->rdma.qp) out->qpn = id->rdma.qp->qp_num;
  if (!param) return 0;
  if (!id->rdma.qp) {
    out->qpn = param->qp_num;
    out->srq = param->srq;
  }
  out->srq = id->rdma.srq || out->srq;
  out->responder_resources = param->responder_resources;
  out->initiator_depth = param->initiator_depth;
  out->flow_control = param->flow_control;
  out->retry_count = param->retry_count;
  out->rnr_retry_count = param->rnr_retry_count;
  if (!param->private_data || !param->private_data_len) return 0;
  if (param->private_data_len > sizeof out->data) return EINVAL;
  out->data_bytes = param->private_data_len;
  memcpy(out->data, param->private_data, param->private_data_len);
  return 0;
}

int tsr_rdma_connect(struct rdma_cm_id *rdma, struct rdma_conn_param *param) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_connect wanted;
  int error = fill(id, param, &wanted);
  const uint8_t most = TESSERA_HCA_MAX_RD_ATOMIC;
  wanted.responder_resources = limited(param ? wanted.responder_resources : RDMA_MAX_RESP_RES, most);
  wanted.initiator_depth = limited(param ? wanted.initiator_depth : RDMA_MAX_INIT_DEPTH, most);
  if (error == 0)
    error = tsr_cm_ask(TESSERA_CM_MESSAGE_CONNECT, &wanted, sizeof wanted, NULL, 0, NULL);
  return error ? tsr_cm_result(error) : tsr_complete(id);
}

int tsr_rdma_accept(struct rdma_cm_id *rdma, struct rdma_conn_param *param) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_connect wanted;
  int error = fill(id, param, &wanted);
  if (error != 0) return tsr_cm_result(error);
  wanted.responder_resources =
      limited(param ? wanted.responder_resources : RDMA_MAX_RESP_RES, id->responder_resources);
  wanted.initiator_depth =
      limited(param ? wanted.initiator_depth : RDMA_MAX_INIT_DEPTH, id->initiator_depth);
  if (rdma->qp && !is_datagrams(id) &&
      tsr_qp_connect(id, wanted.responder_resources, wanted.initiator_depth) != 0)
    return -1;
  error = tsr_cm_ask(TESSERA_CM_MESSAGE_ACCEPT, &wanted, sizeof wanted, NULL, 0, NULL);
  if (error != 0) {
    tsr_qp_fail(id);
    return tsr_cm_result(error);
  }
  return is_datagrams(id) ? 0 : tsr_complete(id);
}

int tsr_rdma_reject(struct rdma_cm_id *rdma, const void *data, uint8_t bytes) {
  tessera_cm_reject no = {.handle = ((struct tsr_id *)rdma)->handle, .data_bytes = bytes};
  if (bytes > sizeof no.data) return tsr_cm_result(EINVAL);
  if (bytes) memcpy(no.data, data, bytes);
  return tsr_cm_result(tsr_cm_ask(TESSERA_CM_MESSAGE_REJECT, &no, sizeof no, NULL, 0, NULL));
}

int tsr_rdma_establish(struct rdma_cm_id *rdma) {
  if (rdma->qp) return tsr_cm_result(EINVAL); /* done when the event is read */
  const uint32_t handle = ((struct tsr_id *)rdma)->handle;
  return tsr_cm_result(tsr_cm_ask_handle(TESSERA_CM_MESSAGE_ESTABLISH, handle));
}

int tsr_rdma_notify(struct rdma_cm_id *rdma, int event) {
  if (event != COMMUNICATION_ESTABLISHED) return tsr_cm_result(EINVAL);
  const uint32_t handle = ((struct tsr_id *)rdma)->handle;
  return tsr_cm_result(tsr_cm_ask_handle(TESSERA_CM_MESSAGE_NOTIFY, handle));
}

int tsr_rdma_disconnect(struct rdma_cm_id *rdma) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (is_datagrams(id)) return tsr_cm_result(EINVAL);
  tsr_qp_fail(id);
  const int error = tsr_cm_ask_handle(TESSERA_CM_MESSAGE_DISCONNECT, id->handle);
  return error ? tsr_cm_result(error) : tsr_complete(id);
}
