/* The calls that NCCL's InfiniBand transport (net_ib) makes from its start to a few messages, in
 * its order and with its arguments: `nccl_net -p PORT [HOST]`. Symbols are looked up with their
 * versions; nothing is linked. Each process prints what it has observed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_REQUESTS = 32, ROUNDS = 40, MOST = 300000, PAGE = 4096, HOPS = 255 };

#define SYMBOLS(S)                                                                                \
  S("IBVERBS_1.1", struct ibv_device **, ibv_get_device_list, (int *))                            \
  S("IBVERBS_1.1", void, ibv_free_device_list, (struct ibv_device **))                            \
  S("IBVERBS_1.1", const char *, ibv_get_device_name, (struct ibv_device *))                      \
  S("IBVERBS_1.1", struct ibv_context *, ibv_open_device, (struct ibv_device *))                  \
  S("IBVERBS_1.1", int, ibv_close_device, (struct ibv_context *))                                 \
  S("IBVERBS_1.1", int, ibv_get_async_event, (struct ibv_context *, struct ibv_async_event *))    \
  S("IBVERBS_1.1", void, ibv_ack_async_event, (struct ibv_async_event *))                         \
  S("IBVERBS_1.1", int, ibv_query_device, (struct ibv_context *, struct ibv_device_attr *))       \
  S("IBVERBS_1.1", int, ibv_query_port, (struct ibv_context *, uint8_t, void *))                  \
  S("IBVERBS_1.1", int, ibv_query_gid, (struct ibv_context *, uint8_t, int, union ibv_gid *))     \
  S("IBVERBS_1.1", int, ibv_query_qp,                                                             \
    (struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *))                      \
  S("IBVERBS_1.1", struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *))                         \
  S("IBVERBS_1.1", int, ibv_dealloc_pd, (struct ibv_pd *))                                        \
  S("IBVERBS_1.1", struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *, void *, size_t, int))           \
  S("IBVERBS_1.8", struct ibv_mr *, ibv_reg_mr_iova2,                                             \
    (struct ibv_pd *, void *, size_t, uint64_t, unsigned))                                        \
  S("IBVERBS_1.12", struct ibv_mr *, ibv_reg_dmabuf_mr,                                           \
    (struct ibv_pd *, uint64_t, size_t, uint64_t, int, int))                                      \
  S("IBVERBS_1.1", int, ibv_dereg_mr, (struct ibv_mr *))                                          \
  S("IBVERBS_1.1", struct ibv_cq *, ibv_create_cq,                                                \
    (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                          \
  S("IBVERBS_1.1", int, ibv_destroy_cq, (struct ibv_cq *))                                        \
  S("IBVERBS_1.1", struct ibv_qp *, ibv_create_qp, (struct ibv_pd *, struct ibv_qp_init_attr *))  \
  S("IBVERBS_1.1", int, ibv_modify_qp, (struct ibv_qp *, struct ibv_qp_attr *, int))              \
  S("IBVERBS_1.1", int, ibv_destroy_qp, (struct ibv_qp *))                                        \
  S("IBVERBS_1.1", int, ibv_fork_init, (void))                                                    \
  S("IBVERBS_1.1", const char *, ibv_event_type_str, (enum ibv_event_type))                       \
  S("IBVERBS_1.10", int, ibv_query_ece, (struct ibv_qp *, struct ibv_ece *))                      \
  S("IBVERBS_1.10", int, ibv_set_ece, (struct ibv_qp *, struct ibv_ece *))

#define MEMBER(version, type, name, arguments) type(*name##_) arguments;
static struct {
  SYMBOLS(MEMBER)
} v;

/* One slot of the FIFO in which a receiver announces the address of the next message. */
struct fifo {
  uint64_t addr;
  int size;
  uint32_t rkey, tag, nreqs;
  volatile uint64_t index;
};

struct endpoint {
  uint32_t qpn, fifo_key, mtu;
  uint64_t fifo_addr;
  union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct fifo fifo[MAX_REQUESTS] __attribute__((aligned(PAGE)));
static struct fifo outgoing __attribute__((aligned(PAGE)));
static int is_sender, gid_index;

static void need(int works, const char *what) {
  if (works) return;
  printf("%s failed: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void load(void) {
  void *library = dlopen("libibverbs.so.1", RTLD_NOW);
  need(library != NULL, "dlopen");
#define LOAD(version, type, name, arguments)                              \
  *(void **)&v.name##_ = dlvsym(library, #name, version);                 \
  need(v.name##_ != NULL, #name "@" version);
  SYMBOLS(LOAD)
}

static void *watch(void *unused) {
  struct ibv_async_event event;
  if (v.ibv_get_async_event_(context, &event) == 0) {
    printf("event %s\n", v.ibv_event_type_str_(event.event_type));
    v.ibv_ack_async_event_(&event);
  }
  return unused;
}

static int sysfs(const char *device, const char *file, char *text, int bytes) {
  char path[256];
  snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", device, file);
  const int fd = open(path, O_RDONLY);
  const int got = fd < 0 ? -1 : (int)read(fd, text, (size_t)bytes - 1);
  if (fd >= 0) close(fd);
  if (got > 0) text[got] = 0;
  return got;
}

/* Return the first GID for IPv4 and RoCE version 2. */
static int choose_gid(const char *device, int count) {
  for (int i = 0; i < count; i++) {
    union ibv_gid gid;
    char file[64], type[16] = "";
    need(v.ibv_query_gid_(context, 1, i, &gid) == 0, "ibv_query_gid");
    const uint32_t *words = (const uint32_t *)gid.raw;
    if (words[0] || words[1] || words[2] != htonl(0xffff)) continue;
    snprintf(file, sizeof file, "ports/1/gid_attrs/types/%d", i);
    if (sysfs(device, file, type, sizeof type) > 0 && strncmp(type, "RoCE v2", 7) == 0) return i;
  }
  return -1;
}

static struct ibv_port_attr open_device(pthread_t *watcher) {
  int count;
  struct ibv_device_attr device;
  struct ibv_port_attr port;
  need(v.ibv_fork_init_() == 0, "ibv_fork_init");
  struct ibv_device **list = v.ibv_get_device_list_(&count);
  need(list && count == 1, "ibv_get_device_list");
  const char *name = v.ibv_get_device_name_(list[0]);
  context = v.ibv_open_device_(list[0]);
  need(context != NULL, "ibv_open_device");
  need(v.ibv_query_device_(context, &device) == 0 && device.phys_port_cnt == 1, "query device");
  need(v.ibv_query_port_(context, 1, &port) == 0, "ibv_query_port");
  need(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET, "port");
  need(device.sys_image_guid && device.max_qp > 0 && port.active_speed && port.active_width,
       "properties");
  gid_index = choose_gid(name, port.gid_tbl_len);
  need(gid_index >= 0, "a GID");
  pthread_create(watcher, NULL, watch, NULL);
  pd = v.ibv_alloc_pd_(context);
  v.ibv_free_device_list_(list);
  return port;
}

/* Whether device memory can be registered by descriptor: then -1 is an invalid descriptor. */
static void probe_dmabuf(void) {
  struct ibv_pd *probed = v.ibv_alloc_pd_(context);
  errno = 0;
  v.ibv_reg_dmabuf_mr_(probed, 0, 0, 0, -1, 0);
  printf("dma-buf %s\n",
         errno == EOPNOTSUPP || errno == EPROTONOSUPPORT ? "not supported" : strerror(errno));
  v.ibv_dealloc_pd_(probed);
}

static struct ibv_qp *create_qp(int access) {
  struct ibv_qp_init_attr wanted = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  wanted.cap = (struct ibv_qp_cap){2 * MAX_REQUESTS, MAX_REQUESTS, 1, 1, sizeof(struct fifo)};
  struct ibv_qp *qp = v.ibv_create_qp_(pd, &wanted);
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};
  need(qp && v.ibv_modify_qp_(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                             IBV_QP_ACCESS_FLAGS) == 0, "queue pair");
  return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t qpn, uint32_t mtu, union ibv_gid gid) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = (enum ibv_mtu)mtu,
                             .dest_qp_num = qpn,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 12,
                             .ah_attr = {.is_global = 1, .port_num = 1}};
  attr.ah_attr.grh = (struct ibv_global_route){
      .dgid = gid, .sgid_index = (uint8_t)gid_index, .hop_limit = HOPS};
  need(v.ibv_modify_qp_(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  need(v.ibv_modify_qp_(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static struct ibv_wc next(void) {
  struct ibv_wc done[4];
  int count;
  while ((count = ibv_poll_cq(cq, 1, done)) == 0) continue;
  need(count == 1, "ibv_poll_cq");
  return done[0];
}

static void post(struct ibv_qp *qp, struct ibv_send_wr *wr) {
  struct ibv_send_wr *bad;
  need(ibv_post_send(qp, wr, &bad) == 0, "ibv_post_send");
}

static int size_of(int round) { return round % 7 == 0 ? 0 : round * 7919 % MOST; }
static unsigned char byte_of(int round, int at) { return (unsigned char)(round * 31 + at * 7); }

/* Register memory as NCCL does: whole pages, with relaxed ordering. */
static struct ibv_mr *register_memory(void *data, size_t bytes) {
  const uintptr_t from = (uintptr_t)data & ~(uintptr_t)(PAGE - 1);
  const size_t pages = ((uintptr_t)data + bytes - from + PAGE - 1) / PAGE;
  const unsigned flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
  struct ibv_mr *mr = v.ibv_reg_mr_iova2_(pd, (void *)from, pages * PAGE, from, flags);
  need(mr != NULL, "ibv_reg_mr_iova2");
  return mr;
}

/* Announce the address of the message, wait for it, and read a byte back as a flush. */
static int receive(struct ibv_qp *qp, struct ibv_qp *flush, const struct endpoint *theirs, int round,
                   unsigned char *data, struct ibv_mr *mr) {
  struct ibv_recv_wr *bad, recv = {.wr_id = 7};
  need(ibv_post_recv(qp, &recv, &bad) == 0, "ibv_post_recv");
  memset(data, 0xff, MOST);
  outgoing = (struct fifo){.addr = (uintptr_t)data, .size = MOST, .rkey = mr->rkey, .nreqs = 1};
  outgoing.index = (uint64_t)round + 1;
  struct ibv_sge sge = {(uintptr_t)&outgoing, sizeof outgoing, 0};
  const int slot = round % MAX_REQUESTS;
  struct ibv_send_wr wr = {.wr_id = 1,
                           .sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_RDMA_WRITE,
                           .send_flags = IBV_SEND_INLINE | (slot == 0 ? IBV_SEND_SIGNALED : 0)};
  wr.wr.rdma.remote_addr = theirs->fifo_addr + (uint64_t)slot * sizeof(struct fifo);
  wr.wr.rdma.rkey = theirs->fifo_key;
  post(qp, &wr);
  struct ibv_wc done;
  do done = next();
  while (done.opcode == IBV_WC_RDMA_WRITE && done.status == IBV_WC_SUCCESS);
  need(done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
           done.wr_id == 7 && done.wc_flags & IBV_WC_WITH_IMM, "receive completion");
  const int size = (int)ntohl(done.imm_data);
  struct ibv_sge one = {(uintptr_t)data, 1, mr->lkey};
  struct ibv_send_wr read = {.sg_list = &one, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                             .send_flags = IBV_SEND_SIGNALED};
  read.wr.rdma.remote_addr = (uintptr_t)data + MOST - 1;
  read.wr.rdma.rkey = mr->rkey;
  const unsigned char first = data[0];
  post(flush, &read);
  done = next();
  need(done.status == IBV_WC_SUCCESS && done.opcode == IBV_WC_RDMA_READ, "flush");
  const int wrong = data[0] != 0xff;
  data[0] = first;
  return size != size_of(round) || wrong;
}

static int verify(const unsigned char *data, int round) {
  const int size = size_of(round);
  for (int i = 0; i < size; i++)
    if (data[i] != byte_of(round, i)) return 1;
  return data[size] != 0xff;
}

static void transmit(struct ibv_qp *qp, int round, unsigned char *data, struct ibv_mr *mr) {
  struct fifo *slot = &fifo[round % MAX_REQUESTS];
  while (slot->index != (uint64_t)round + 1) continue;
  __sync_synchronize();
  const int size = size_of(round);
  for (int i = 0; i < size; i++) data[i] = byte_of(round, i);
  struct ibv_sge sge = {(uintptr_t)data, (uint32_t)size, mr->lkey};
  struct ibv_send_wr last = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl((uint32_t)size)};
  struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .next = &last};
  write.sg_list = &sge;
  write.num_sge = size ? 1 : 0;
  write.wr.rdma.remote_addr = slot->addr;
  last.wr.rdma.remote_addr = slot->addr;
  write.wr.rdma.rkey = last.wr.rdma.rkey = slot->rkey;
  post(qp, &write);
  const struct ibv_wc done = next();
  need(done.status == IBV_WC_SUCCESS, "send completion");
}

static int peer(int count, char **arguments) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  at.sin_port = htons((uint16_t)atoi(arguments[2]));
  const int one = 1, own = socket(AF_INET, SOCK_STREAM, 0);
  is_sender = count > 3;
  if (is_sender) {
    need(connect(own, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    return own;
  }
  setsockopt(own, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  need(bind(own, (struct sockaddr *)&at, sizeof at) == 0 && listen(own, 1) == 0, "listen");
  return accept(own, NULL, NULL);
}

static void swap(int link, const void *mine, void *theirs, size_t bytes) {
  need(send(link, mine, bytes, 0) == (ssize_t)bytes, "send");
  need(recv(link, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
}

int main(int count, char **arguments) {
  pthread_t watcher;
  load();
  const struct ibv_port_attr port = open_device(&watcher);
  probe_dmabuf();
  cq = v.ibv_create_cq_(context, 2 * MAX_REQUESTS, NULL, NULL, 0);
  struct ibv_qp *qp = create_qp(IBV_ACCESS_REMOTE_WRITE);
  struct ibv_ece ece = {0};
  printf("ece %d\n", v.ibv_query_ece_(qp, &ece) == EOPNOTSUPP);
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  struct ibv_mr *slots = v.ibv_reg_mr_(pd, fifo, sizeof fifo, access);
  struct endpoint mine = {.qpn = qp->qp_num, .mtu = port.active_mtu}, theirs;
  need(cq && slots && v.ibv_query_gid_(context, 1, gid_index, &mine.gid) == 0, "resources");
  mine.fifo_key = slots->rkey;
  mine.fifo_addr = (uintptr_t)fifo;
  const int link = peer(count, arguments);
  swap(link, &mine, &theirs, sizeof mine);
  const uint32_t mtu = mine.mtu < theirs.mtu ? mine.mtu : theirs.mtu;
  connect_qp(qp, theirs.qpn, mtu, theirs.gid);
  struct ibv_qp *flush = is_sender ? NULL : create_qp(access);
  if (flush) connect_qp(flush, flush->qp_num, mtu, mine.gid);
  char ready = 1;
  swap(link, &ready, &ready, 1);

  unsigned char *data = malloc(MOST + PAGE);
  struct ibv_mr *mr = register_memory(data + 100, MOST);
  int wrong = 0;
  for (int round = 0; round < ROUNDS; round++) {
    if (is_sender) {
      transmit(qp, round, data + 100, mr);
      continue;
    }
    wrong += receive(qp, flush, &theirs, round, data + 100, mr);
    wrong += verify(data + 100, round);
  }
  printf("messages %d wrong %d\n", ROUNDS, wrong);

  swap(link, &ready, &ready, 1);
  if (is_sender) { /* this is what the watcher is for: an event notifies the other side */
    struct ibv_sge sge = {(uintptr_t)data + 100, 8, mr->lkey};
    struct ibv_send_wr bad = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_SIGNALED};
    bad.wr.rdma.remote_addr = theirs.fifo_addr;
    bad.wr.rdma.rkey = theirs.fifo_key ^ 0x5a5a;
    post(qp, &bad);
    printf("status %d\n", next().status);
    pthread_cancel(watcher);
  }
  pthread_join(watcher, NULL);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  need(v.ibv_query_qp_(qp, &attr, IBV_QP_STATE, &init) == 0, "ibv_query_qp");
  printf("state %d\n", attr.qp_state);
  int ended = v.ibv_destroy_qp_(qp) + (flush ? v.ibv_destroy_qp_(flush) : 0);
  ended += v.ibv_dereg_mr_(mr) + v.ibv_dereg_mr_(slots) + v.ibv_destroy_cq_(cq);
  ended += v.ibv_dealloc_pd_(pd) + v.ibv_close_device_(context);
  printf("ended %d\n", ended);
  return 0;
}
