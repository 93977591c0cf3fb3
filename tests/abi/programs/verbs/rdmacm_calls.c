/* Calls of librdmacm that the tools do not make, in one process that connects to itself.
 * Compiled with the distribution's headers. Prints differences from the expected results; its
 * exit status is 0 if there are none. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define WANT(condition)                                              \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
      failures++;                                                    \
    }                                                                \
  } while (0)

static struct sockaddr_in own = {.sin_family = AF_INET};

static struct rdma_cm_event *next(struct rdma_event_channel *channel, int type) {
  struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
  struct rdma_cm_event *event = NULL;
  if (poll(&ready, 1, 60000) != 1 || rdma_get_cm_event(channel, &event) != 0) {
    printf("no event %s\n", rdma_event_str(type));
    exit(1);
  }
  if ((int)event->event != type)
    printf("%s for %s\n", rdma_event_str(event->event), rdma_event_str(type)), failures++;
  return event;
}

static void skip(struct rdma_event_channel *channel, int type) {
  rdma_ack_cm_event(next(channel, type));
}

static struct rdma_cm_id *routed(struct rdma_event_channel *channel, uint16_t port) {
  struct rdma_cm_id *id;
  struct sockaddr_in to = own;
  to.sin_port = port;
  WANT(rdma_create_id(channel, &id, "mine", RDMA_PS_TCP) == 0);
  WANT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
  skip(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  WANT(id->verbs != NULL && id->port_num == 1 && id->pd != NULL);
  WANT(((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr == own.sin_addr.s_addr);
  WANT(rdma_get_dst_port(id) == port && rdma_get_src_port(id) != 0);
  WANT(rdma_resolve_route(id, 1000) == 0);
  skip(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  WANT(rdma_create_qp(id, NULL, &attr) == 0);
  WANT(id->qp && id->qp->state == IBV_QPS_INIT && id->send_cq && id->recv_cq_channel);
  return id;
}

/* A refused queue pair leaves nothing behind: there is no room for the channels of this many. */
static void refused(struct rdma_event_channel *channel, uint16_t port) {
  enum { TRIES = 1100, TOO_MANY = 1 << 20 };
  struct rdma_cm_id *id = routed(channel, port);
  rdma_destroy_qp(id);
  WANT(!id->qp && !id->recv_cq && !id->send_cq_channel);
  for (int i = 0; i < TRIES; i++) {
    struct ibv_qp_init_attr attr = {.cap = {TOO_MANY, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    errno = 0;
    if (rdma_create_qp(id, NULL, &attr) == 0 || errno != EINVAL) {
      printf("refusal %d: errno %d\n", i, errno), failures++;
      break;
    }
  }
  WANT(!id->qp && !id->recv_cq && !id->recv_cq_channel);
  for (int i = 0; i < TRIES; i++) { /* nor do objects that are destroyed */
    struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    if (rdma_create_qp(id, NULL, &attr) != 0) {
      printf("queue pair %d: errno %d\n", i, errno), failures++;
      break;
    }
    rdma_destroy_qp(id);
  }
  struct ibv_cq *cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
  struct ibv_qp_init_attr attr = {
      .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC}; /* one of two queues */
  WANT(rdma_create_qp(id, NULL, &attr) == 0 && id->qp->recv_cq == cq && id->send_cq && !id->recv_cq);
  rdma_destroy_qp(id);
  WANT(ibv_destroy_cq(cq) == 0);
  rdma_destroy_id(id);
}

static void rejects(struct rdma_event_channel *here, struct rdma_event_channel *there,
                    uint16_t port) {
  struct rdma_cm_id *id = routed(here, port);
  struct rdma_conn_param param = {.private_data = "please", .private_data_len = 7};
  WANT(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *request = next(there, RDMA_CM_EVENT_CONNECT_REQUEST);
  WANT(strcmp(request->param.conn.private_data, "please") == 0);
  WANT(request->param.conn.private_data_len == 56);
  WANT(request->listen_id && request->id->context == request->listen_id->context);
  struct rdma_cm_id *new_id = request->id;
  WANT(rdma_reject(new_id, "never", 6) == 0);
  rdma_ack_cm_event(request);
  WANT(rdma_destroy_id(new_id) == 0);
  struct rdma_cm_event *refused = next(here, RDMA_CM_EVENT_REJECTED);
  WANT(refused->status == 28);
  WANT(strcmp(refused->param.conn.private_data, "never") == 0);
  WANT(id->qp->state == IBV_QPS_ERR);
  rdma_ack_cm_event(refused);
  rdma_destroy_qp(id);
  WANT(rdma_destroy_id(id) == 0);
}

static void connects(struct rdma_event_channel *here, struct rdma_event_channel *there,
                     uint16_t port) {
  struct rdma_cm_id *id = routed(here, port);
  struct rdma_conn_param param = {.responder_resources = 4, .initiator_depth = 2, .retry_count = 3};
  WANT(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *request = next(there, RDMA_CM_EVENT_CONNECT_REQUEST);
  WANT(request->param.conn.initiator_depth == 4 && request->param.conn.responder_resources == 2);
  struct rdma_cm_id *peer = request->id;
  rdma_ack_cm_event(request);
  struct rdma_event_channel *other = rdma_create_event_channel();
  WANT(rdma_migrate_id(peer, other) == 0 && peer->channel == other);
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  WANT(rdma_create_qp(peer, NULL, &attr) == 0);
  WANT(rdma_accept(peer, NULL) == 0);
  WANT(peer->qp->state == IBV_QPS_RTS);
  skip(here, RDMA_CM_EVENT_ESTABLISHED);
  skip(other, RDMA_CM_EVENT_ESTABLISHED);
  WANT(id->qp->state == IBV_QPS_RTS);
  struct ibv_qp_attr now;
  struct ibv_qp_init_attr made;
  WANT(ibv_query_qp(id->qp, &now, IBV_QP_AV, &made) == 0);
  WANT(now.max_rd_atomic == 2 && now.max_dest_rd_atomic == 4 && now.retry_cnt == 3);
  WANT(now.dest_qp_num == peer->qp->qp_num && now.ah_attr.grh.sgid_index == 1);
  WANT(rdma_disconnect(peer) == 0);
  skip(here, RDMA_CM_EVENT_DISCONNECTED);
  WANT(rdma_disconnect(id) == 0);
  skip(other, RDMA_CM_EVENT_DISCONNECTED);
  skip(here, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  rdma_destroy_qp(id);
  rdma_destroy_qp(peer);
  WANT(rdma_destroy_id(id) == 0);
  WANT(rdma_destroy_id(peer) == 0);
  rdma_destroy_event_channel(other);
}

/* The peer has accepted, but this side's queue pair cannot be connected: both sides get an
 * event. */
static void fails(struct rdma_event_channel *here, struct rdma_event_channel *there,
                  uint16_t port) {
  struct rdma_cm_id *id = routed(here, port);
  struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
  WANT(rdma_connect(id, &param) == 0);
  struct rdma_cm_event *request = next(there, RDMA_CM_EVENT_CONNECT_REQUEST);
  struct rdma_cm_id *peer = request->id;
  rdma_ack_cm_event(request);
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  WANT(rdma_create_qp(peer, NULL, &attr) == 0);
  struct ibv_qp_attr state = {.qp_state = IBV_QPS_ERR};
  WANT(ibv_modify_qp(id->qp, &state, IBV_QP_STATE) == 0);
  WANT(rdma_accept(peer, NULL) == 0);
  struct rdma_cm_event *failed = next(here, RDMA_CM_EVENT_CONNECT_ERROR);
  WANT(failed->status < 0 && failed->id == id);
  rdma_ack_cm_event(failed);
  skip(there, RDMA_CM_EVENT_REJECTED);
  WANT(peer->qp->state == IBV_QPS_ERR);
  rdma_destroy_qp(id);
  rdma_destroy_qp(peer);
  WANT(rdma_destroy_id(id) == 0);
  WANT(rdma_destroy_id(peer) == 0);
}

/* Completion events are acknowledged one at a time; then the queue can be destroyed. */
static void completes(struct rdma_event_channel *channel, uint16_t port) {
  struct rdma_cm_id *id = routed(channel, port);
  struct ibv_qp_attr state = {.qp_state = IBV_QPS_ERR};
  WANT(ibv_modify_qp(id->qp, &state, IBV_QP_STATE) == 0);
  struct ibv_recv_wr receive = {.wr_id = 7}, *bad;
  for (int i = 0; i < 2; i++) {
    WANT(ibv_req_notify_cq(id->recv_cq, 0) == 0);
    WANT(ibv_post_recv(id->qp, &receive, &bad) == 0);
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    WANT(ibv_get_cq_event(id->recv_cq_channel, &cq, &context) == 0);
    WANT(cq == id->recv_cq && context == id);
    ibv_ack_cq_events(cq, 1);
    struct ibv_wc done;
    WANT(ibv_poll_cq(cq, 1, &done) == 1 && done.status == IBV_WC_WR_FLUSH_ERR && done.wr_id == 7);
  }
  rdma_destroy_qp(id);
  WANT(rdma_destroy_id(id) == 0);
}

static void datagrams(struct rdma_event_channel *channel) {
  struct rdma_cm_id *id;
  struct sockaddr_in group = {.sin_family = AF_INET}, from = own;
  inet_pton(AF_INET, "239.1.2.3", &group.sin_addr);
  struct sockaddr *to = (struct sockaddr *)&group;
  WANT(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0);
  WANT(rdma_join_multicast(id, to, NULL) == -1 && errno == EINVAL);
  WANT(rdma_resolve_addr(id, (struct sockaddr *)&from, to, 1000) == 0);
  skip(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
  WANT(rdma_create_qp(id, NULL, &attr) == 0);
  WANT(rdma_join_multicast(id, (struct sockaddr *)&from, NULL) == -1 && errno == EINVAL);
  WANT(rdma_join_multicast(id, to, &group) == 0);
  WANT(rdma_join_multicast(id, to, NULL) == -1 && errno == EADDRINUSE);
  struct rdma_cm_event *joined = next(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
  const struct rdma_ud_param *ud = &joined->param.ud;
  const union ibv_gid *gid = &ud->ah_attr.grh.dgid;
  WANT(ud->qp_num == 0xffffff && ud->private_data == &group && ud->ah_attr.is_global);
  WANT(ud->qkey == RDMA_UDP_QKEY && memcmp(gid->raw + 12, &group.sin_addr, 4) == 0);
  WANT(ibv_detach_mcast(id->qp, gid, 0) == 0); /* so it has been a member */
  WANT(ibv_attach_mcast(id->qp, gid, 0) == 0);
  rdma_ack_cm_event(joined);
  WANT(rdma_leave_multicast(id, to) == 0);
  WANT(rdma_leave_multicast(id, to) == -1 && errno == EADDRNOTAVAIL);
  struct rdma_cm_join_mc_attr_ex sends = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS};
  WANT(rdma_join_multicast_ex(id, &sends, NULL) == -1 && errno == EINVAL);
  sends.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  sends.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  sends.addr = to;
  WANT(rdma_join_multicast_ex(id, &sends, NULL) == 0);
  joined = next(channel, RDMA_CM_EVENT_MULTICAST_JOIN);
  WANT(ibv_detach_mcast(id->qp, &joined->param.ud.ah_attr.grh.dgid, 0) == EINVAL);
  rdma_ack_cm_event(joined);
  /* An event that is still unread when its group is left is not returned any more. */
  WANT(rdma_leave_multicast(id, to) == 0 && rdma_join_multicast(id, to, NULL) == 0);
  WANT(rdma_leave_multicast(id, to) == 0);
  WANT(rdma_resolve_route(id, 1000) == 0);
  skip(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  WANT(rdma_connect(id, NULL) == -1 && errno == EINVAL);
  rdma_destroy_qp(id);
  WANT(rdma_destroy_id(id) == 0);
}

static void errors(struct rdma_event_channel *channel, uint16_t port) {
  struct rdma_cm_id *id;
  WANT(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
  struct sockaddr_in to = own;
  to.sin_port = port;
  WANT(rdma_bind_addr(id, (struct sockaddr *)&to) == -1 && errno == EADDRINUSE);
  WANT(rdma_resolve_route(id, 1) == -1 && errno == EINVAL);
  WANT(rdma_connect(id, NULL) == -1 && errno == EINVAL);
  WANT(rdma_join_multicast(id, (struct sockaddr *)&to, NULL) == -1 && errno == EINVAL);
  /* An address of the other family is refused for both ends, and the id is unchanged. */
  struct sockaddr_in other = {.sin_family = AF_UNIX};
  struct sockaddr *const odd = (struct sockaddr *)&other, *const good = (struct sockaddr *)&to;
  WANT(rdma_resolve_addr(id, NULL, odd, 1000) == -1 && errno == EAFNOSUPPORT);
  WANT(rdma_resolve_addr(id, odd, good, 1000) == -1 && errno == EAFNOSUPPORT);
  WANT(rdma_resolve_addr(id, NULL, NULL, 1000) == -1 && errno == EINVAL);
  WANT(rdma_bind_addr(id, odd) == -1 && errno == EAFNOSUPPORT);
  WANT(rdma_bind_addr(id, NULL) == -1 && errno == EINVAL);
  uint8_t tos = 8;
  WANT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1) == 0);
  WANT(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4) == -1 && errno == EINVAL);
  WANT(rdma_set_option(id, RDMA_OPTION_IB, 1, &tos, 1) == -1 && errno == EOPNOTSUPP);
  inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
  WANT(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
  struct rdma_cm_event *failed = next(channel, RDMA_CM_EVENT_ADDR_ERROR);
  WANT(failed->status == -ENETUNREACH);
  rdma_ack_cm_event(failed);
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  struct rdma_cm_event *none;
  WANT(rdma_get_cm_event(channel, &none) == -1 && errno == EAGAIN);
  WANT(rdma_destroy_id(id) == 0);
  WANT(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB) == -1 && errno == EOPNOTSUPP);
  WANT(rsocket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EOPNOTSUPP);
}

static void endpoints(void) {
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
  WANT(rdma_getaddrinfo(getenv("TESSERA_HCA_ADDRESS"), "9", &hints, &found) == 0);
  struct rdma_cm_id *id;
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}};
  WANT(rdma_create_ep(&id, found, NULL, &attr) == 0);
  WANT(rdma_connect(id, NULL) == -1 && errno == ECONNREFUSED);
  WANT(id->event && id->event->status == 8);
  rdma_destroy_ep(id);
  rdma_freeaddrinfo(found);
}

int main(void) {
  inet_pton(AF_INET, getenv("TESSERA_HCA_ADDRESS"), &own.sin_addr);
  int count;
  struct ibv_context **devices = rdma_get_devices(&count);
  WANT(count == 1 && devices && !devices[1]);
  rdma_free_devices(devices);
  struct rdma_event_channel *here = rdma_create_event_channel();
  struct rdma_event_channel *there = rdma_create_event_channel();
  struct rdma_cm_id *listener;
  WANT(rdma_create_id(there, &listener, "server", RDMA_PS_TCP) == 0);
  struct sockaddr_in any = {.sin_family = AF_INET};
  WANT(rdma_bind_addr(listener, (struct sockaddr *)&any) == 0);
  WANT(listener->verbs == NULL);
  WANT(rdma_listen(listener, 0) == 0);
  const uint16_t port = rdma_get_src_port(listener);
  WANT(port != 0);
  refused(here, port);
  rejects(here, there, port);
  connects(here, there, port);
  fails(here, there, port);
  completes(here, port);
  endpoints();
  datagrams(here);
  errors(here, port);
  WANT(rdma_destroy_id(listener) == 0);
  rdma_destroy_event_channel(here);
  rdma_destroy_event_channel(there);
  return failures != 0;
}
