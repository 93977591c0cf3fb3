/* Two programs with GPU memory, connected by rdma_cm: the server has no argument, the client has
 * the server's address. Each line reports what one of them has observed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);

enum { COUNT = 1 << 20, BYTES = COUNT * 4 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

/* The server's memory, as described to the client. */
struct memory {
  CUdeviceptr address;
  uint32_t key;
};

static unsigned host[COUNT];
static char word[8];

static void need(int works, const char *what) {
  if (works) return;
  printf("%s failed: %s\n", what, strerror(errno));
  exit(1);
}

static CUdeviceptr open_gpu(void) {
  void *primary;
  CUdeviceptr memory;
  need(cuInit(0) == 0, "cuInit");
  need(cuDevicePrimaryCtxRetain(&primary, 0) == 0, "context");
  need(cuCtxSetCurrent(primary) == 0, "current");
  need(cuMemAlloc_v2(&memory, BYTES) == 0, "memory");
  need(cuMemcpyHtoD_v2(memory, host, BYTES) == 0, "copy");
  return memory;
}

static struct rdma_addrinfo *resolve(const char *address) {
  struct rdma_addrinfo hints = {.ai_flags = address ? 0 : RAI_PASSIVE,
                                .ai_port_space = RDMA_PS_TCP,
                                .ai_qp_type = IBV_QPT_RC};
  struct rdma_addrinfo *found;
  need(rdma_getaddrinfo(address, "7471", &hints, &found) == 0, "address");
  return found;
}

static struct rdma_cm_id *endpoint(const char *address) {
  struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_cm_id *id;
  need(rdma_create_ep(&id, resolve(address), NULL, &attr) == 0, "endpoint");
  return id;
}

static struct ibv_mr *reg(struct rdma_cm_id *id, CUdeviceptr address, size_t bytes) {
  struct ibv_mr *mr = ibv_reg_mr(id->pd, (void *)(size_t)address, bytes, ACCESS);
  need(mr != NULL, "ibv_reg_mr");
  return mr;
}

static const char *done(struct ibv_cq *cq) {
  struct ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 0) continue;
  return ibv_wc_status_str(wc.status);
}

static const char *post(struct rdma_cm_id *id, const struct ibv_mr *mr, enum ibv_wr_opcode opcode,
                        struct memory theirs) {
  struct ibv_sge sge = {(size_t)mr->addr, (uint32_t)mr->length, mr->lkey};
  struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = opcode,
                                 .wr.rdma = {.remote_addr = theirs.address, .rkey = theirs.key}};
  need(ibv_post_send(id->qp, &wr, &bad) == 0, "post");
  return done(id->send_cq);
}

static void expect(struct rdma_cm_id *id, const struct ibv_mr *mr) {
  struct ibv_sge sge = {(size_t)mr->addr, (uint32_t)mr->length, mr->lkey};
  struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
  need(ibv_post_recv(id->qp, &wr, &bad) == 0, "post");
}

static void serve(void) {
  const CUdeviceptr memory = open_gpu();
  struct rdma_cm_id *listener = endpoint(NULL), *id;
  need(rdma_listen(listener, 1) == 0, "listen");
  printf("listens\n");
  need(rdma_get_request(listener, &id) == 0, "request");
  const struct memory mine = {memory, reg(id, memory, BYTES)->rkey};
  const struct ibv_mr *words = reg(id, (size_t)word, sizeof word);
  struct rdma_conn_param param = {.private_data = &mine, .private_data_len = sizeof mine};
  expect(id, words);
  need(rdma_accept(id, &param) == 0, "accept");
  printf("received %s\n", done(id->recv_cq));
  need(cuMemcpyDtoH_v2(host, memory, BYTES) == 0, "copy back");
  unsigned right = 0;
  for (unsigned i = 0; i < COUNT; i++) right += host[i] == i * 3 + 1;
  printf("gpu has %u\n", right);
  printf("reset %d\n", cuDevicePrimaryCtxReset_v2(0));
  printf("sent %s\n", post(id, words, IBV_WR_SEND, mine));
  struct rdma_cm_event *event;
  if (id->event) rdma_ack_cm_event(id->event);
  id->event = NULL;
  need(rdma_get_cm_event(id->channel, &event) == 0, "event");
  printf("%s\n", rdma_event_str(event->event));
}

static void ask(const char *address) {
  for (unsigned i = 0; i < COUNT; i++) host[i] = i * 3 + 1;
  const CUdeviceptr memory = open_gpu();
  struct rdma_cm_id *id = endpoint(address);
  const struct ibv_mr *mr = reg(id, memory, BYTES), *words = reg(id, (size_t)word, sizeof word);
  struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
  expect(id, words);
  need(rdma_connect(id, &param) == 0, "connect");
  struct memory theirs;
  memcpy(&theirs, id->event->param.conn.private_data, sizeof theirs);
  printf("write %s\n", post(id, mr, IBV_WR_RDMA_WRITE, theirs));
  printf("sent %s\n", post(id, words, IBV_WR_SEND, theirs));
  printf("received %s\n", done(id->recv_cq));
  printf("write %s\n", post(id, mr, IBV_WR_RDMA_WRITE, theirs));
  rdma_disconnect(id);
}

int main(int count, char **arguments) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (count > 1)
    ask(arguments[1]);
  else
    serve();
  return 0;
}
