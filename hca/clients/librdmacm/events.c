/* rdma_get_cm_event, rdma_ack_cm_event: reads hcad's events and adds what the library knows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "ids.h"

static void fill_connection(struct tsr_event *event, const tessera_cm_event *raw) {
  struct rdma_conn_param *conn = &event->rdma.param.conn;
  conn->private_data = raw->data_bytes ? event->data : NULL;
  conn->private_data_len = raw->data_bytes;
  conn->responder_resources = raw->responder_resources;
  conn->initiator_depth = raw->initiator_depth;
  conn->flow_control = raw->flow_control;
  conn->retry_count = raw->retry_count;
  conn->rnr_retry_count = raw->rnr_retry_count;
  conn->srq = raw->srq;
  conn->qp_num = raw->qpn;
}

static void fill_datagrams(struct tsr_event *event, const tessera_cm_event *raw) {
  struct rdma_ud_param *ud = &event->rdma.param.ud;
  ud->private_data = raw->data_bytes ? event->data : NULL;
  ud->private_data_len = raw->data_bytes;
  ud->qp_num = raw->qpn;
  ud->qkey = raw->qkey;
  if (raw->path.state != TESSERA_VERBS_STATE_RTR) return;
  struct ibv_ah_attr *ah = &ud->ah_attr;
  memcpy(&ah->grh.dgid, raw->path.dgid, sizeof ah->grh.dgid);
  ah->grh.sgid_index = raw->path.sgid_index;
  ah->grh.hop_limit = raw->path.hop_limit;
  ah->grh.traffic_class = raw->path.traffic_class;
  ah->is_global = raw->path.is_global;
  ah->port_num = raw->path.av_port;
}

/* Make the id for an incoming request; NULL where its listener was destroyed, or without memory. */
static struct tsr_id *take_request(struct tsr_event *event, const tessera_cm_event *raw) {
  struct tsr_id *listener = tsr_id_find(raw->listener, true);
  struct tsr_id *id = NULL;
  if (listener) id = tsr_id_new(raw->handle, listener->rdma.channel, listener->rdma.context,
                                (int)raw->port_space);
  if (!id) {
    if (listener) tsr_id_acknowledge(listener);
    tsr_cm_ask_handle(TESSERA_CM_MESSAGE_ID_DESTROY, raw->handle);
    return NULL;
  }
  event->rdma.listen_id = &listener->rdma;
  event->counted = listener;
  tsr_id_set_route(id, &raw->route);
  tsr_id_bind_device(id);
  id->responder_resources = raw->responder_resources;
  id->initiator_depth = raw->initiator_depth;
  tsr_id_add(id);
  return id;
}

/* Handle the peer's acceptance: connect the id's queue pair, if it has one, to the peer's, and
 * confirm to the peer. */
static void take_response(struct tsr_event *event, struct tsr_id *id) {
  if (!id->rdma.qp) return; /* the program confirms, with rdma_establish() */
  int error = 0;
  if (tsr_qp_connect(id, id->responder_resources, id->initiator_depth) != 0) error = errno;
  if (error == 0) error = tsr_cm_ask_handle(TESSERA_CM_MESSAGE_ESTABLISH, id->handle);
  event->rdma.event = TESSERA_CM_EVENT_TYPE_ESTABLISHED;
  if (error == 0) return;
  const tessera_cm_reject no = {.handle = id->handle};
  tsr_cm_ask(TESSERA_CM_MESSAGE_REJECT, &no, sizeof no, NULL, 0, NULL);
  tsr_qp_fail(id);
  event->rdma.event = TESSERA_CM_EVENT_TYPE_CONNECT_ERROR;
  event->rdma.status = -error;
}

static bool fill(struct tsr_event *event, const tessera_cm_event *raw) {
  event->rdma.event = (int)raw->type;
  event->rdma.status = raw->status;
  memcpy(event->data, raw->data, sizeof event->data);
  struct tsr_id *id;
  if (raw->type == TESSERA_CM_EVENT_TYPE_CONNECT_REQUEST) {
    id = take_request(event, raw);
  } else {
    id = event->counted = tsr_id_find(raw->handle, true);
  }
  if (!id) return false; /* the id was destroyed meanwhile */
  event->rdma.id = &id->rdma;
  if (id->rdma.qp_type == TESSERA_VERBS_QP_TYPE_UD)
    fill_datagrams(event, raw);
  else
    fill_connection(event, raw);
  if (raw->path.state == TESSERA_VERBS_STATE_RTR) {
    id->path = raw->path;
    id->has_path = true;
  }
  switch (raw->type) {
    case TESSERA_CM_EVENT_TYPE_ADDR_RESOLVED:
      tsr_id_set_route(id, &raw->route);
      if (tsr_id_bind_device(id) != 0) {
        event->rdma.event = TESSERA_CM_EVENT_TYPE_ADDR_ERROR;
        event->rdma.status = -ENODEV;
      }
      break;
    case TESSERA_CM_EVENT_TYPE_CONNECT_RESPONSE:
      id->responder_resources = raw->responder_resources;
      id->initiator_depth = raw->initiator_depth;
      take_response(event, id);
      break;
    case TESSERA_CM_EVENT_TYPE_REJECTED: tsr_qp_fail(id); break;
    case TESSERA_CM_EVENT_TYPE_MULTICAST_JOIN:
      if (tsr_group_joined(id, &event->rdma)) break;
      tsr_id_acknowledge(id);
      return false;
    default: break;
  }
  return true;
}

int tsr_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **given) {
  if (!channel || !given) return tsr_cm_result(EINVAL);
  struct tsr_event *event = calloc(1, sizeof *event);
  if (!event) return tsr_cm_result(ENOMEM);
  const int fd = channel->fd;
  for (;;) {
    tessera_cm_event raw;
    const ssize_t got = read(fd, &raw, sizeof raw);
    /* Another thread has destroyed the channel: a thread waiting for its events keeps waiting,
     * as with the kernel's librdmacm, until it is cancelled or the program ends. */
    while (got == 0 && !tsr_cm_is_dead()) pause();
    if (got != sizeof raw) {
      const int error = got < 0 ? errno : EIO; /* hcad has gone */
      free(event);
      return tsr_cm_result(error);
    }
    if (fill(event, &raw)) break;
    memset(event, 0, sizeof *event);
  }
  *given = &event->rdma;
  return 0;
}

int tsr_rdma_ack_cm_event(struct rdma_cm_event *rdma) {
  if (!rdma) return tsr_cm_result(EINVAL);
  struct tsr_event *event = (struct tsr_event *)rdma;
  tsr_id_acknowledge(event->counted);
  free(event);
  return 0;
}

int tsr_complete(struct tsr_id *id) {
  if (!id->sync) return 0;
  struct rdma_cm_id *rdma = &id->rdma;
  if (rdma->event) {
    tsr_rdma_ack_cm_event(rdma->event);
    rdma->event = NULL;
  }
  if (tsr_rdma_get_cm_event(rdma->channel, &rdma->event) != 0) return -1;
  const int status = rdma->event->status;
  if (status == 0) return 0;
  if (rdma->event->event == TESSERA_CM_EVENT_TYPE_REJECTED) return tsr_cm_result(ECONNREFUSED);
  return tsr_cm_result(status < 0 ? -status : EHOSTUNREACH);
}

const char *tsr_rdma_event_str(int event) {
  static const char *const NAMES[] = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",    "RDMA_CM_EVENT_ADDR_ERROR",
      "RDMA_CM_EVENT_ROUTE_RESOLVED",   "RDMA_CM_EVENT_ROUTE_ERROR",
      "RDMA_CM_EVENT_CONNECT_REQUEST",  "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",    "RDMA_CM_EVENT_UNREACHABLE",
      "RDMA_CM_EVENT_REJECTED",         "RDMA_CM_EVENT_ESTABLISHED",
      "RDMA_CM_EVENT_DISCONNECTED",     "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN",   "RDMA_CM_EVENT_MULTICAST_ERROR",
      "RDMA_CM_EVENT_ADDR_CHANGE",      "RDMA_CM_EVENT_TIMEWAIT_EXIT"};
  return event >= 0 && event < (int)(sizeof NAMES / sizeof *NAMES) ? NAMES[event]
                                                                    : "UNKNOWN EVENT";
}
