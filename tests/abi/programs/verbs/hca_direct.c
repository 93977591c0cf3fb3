/* Two processes with GPU memory, connected by RDMA; each line reports what one of them has
 * observed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuCtxSetCurrent(void *context);
int cuModuleLoad(void **module, const char *path);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);

enum { COUNT = 1 << 20, BYTES = COUNT * 4, DEPTH = 8, PAIRS = 4, BLOCK = 256 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

/* The data that the processes exchange. */
struct endpoint {
  uint32_t numbers[PAIRS], x_key, y_key, pinned_key;
  CUdeviceptr x, y, far;
  uint64_t pinned;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *pairs[PAIRS];
static float floats[COUNT];

static void need(int works, const char *what) {
  if (works) return;
  printf("%s failed: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void open_gpu(void) {
  void *primary;
  need(cuInit(0) == 0, "cuInit");
  need(cuDevicePrimaryCtxRetain(&primary, 0) == 0, "context");
  need(cuCtxSetCurrent(primary) == 0, "current");
}

static void open_hca(struct endpoint *mine) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  context = list && *list ? ibv_open_device(*list) : NULL;
  need(context != NULL, "device");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  for (int i = 0; i < PAIRS; i++) {
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    pairs[i] = ibv_create_qp(pd, &wanted);
    need(pairs[i] != NULL, "queue pair");
    mine->numbers[i] = pairs[i]->qp_num;
  }
}

static void join(const struct endpoint *theirs) {
  union ibv_gid gid;
  ibv_query_gid(context, 1, 1, &gid);
  for (int i = 0; i < PAIRS; i++) {
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)ACCESS};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_4096,
                              .dest_qp_num = theirs->numbers[i],
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1,
                                          .port_num = 1,
                                          .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}}};
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    need(!ibv_modify_qp(pairs[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                             IBV_QP_ACCESS_FLAGS), "init");
    need(!ibv_modify_qp(pairs[i], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                            IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "rtr");
    need(!ibv_modify_qp(pairs[i], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                            IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                            IBV_QP_MAX_QP_RD_ATOMIC), "rts");
  }
}

static struct ibv_mr *reg(CUdeviceptr address, size_t bytes) {
  struct ibv_mr *mr = ibv_reg_mr(pd, (void *)(uintptr_t)address, bytes, ACCESS);
  need(mr != NULL, "ibv_reg_mr");
  return mr;
}

static const char *move(int pair, enum ibv_wr_opcode opcode, uint64_t local, uint32_t key,
                        uint64_t remote, uint32_t remote_key) {
  struct ibv_sge sge = {.addr = local, .length = BYTES, .lkey = key};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = opcode,
                           .send_flags = IBV_SEND_SIGNALED,
                           .wr.rdma = {.remote_addr = remote, .rkey = remote_key}};
  struct ibv_send_wr *bad;
  need(ibv_post_send(pairs[pair], &wr, &bad) == 0, "post");
  struct ibv_wc done;
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  return ibv_wc_status_str(done.status);
}

static void tell(int link, const void *data, size_t bytes) {
  need(send(link, data, bytes, 0) == (ssize_t)bytes, "send");
}

static void receive_bytes(int link, void *data, size_t bytes) {
  need(recv(link, data, bytes, MSG_WAITALL) == (ssize_t)bytes, "the other one has ended: recv");
}

static void step(int link) { tell(link, "", 1); }

static void wait_for(int link) {
  char byte;
  receive_bytes(link, &byte, 1);
}

static int errno_of_reg(CUdeviceptr address, size_t bytes) {
  errno = 0;
  return ibv_reg_mr(pd, (void *)(uintptr_t)address, bytes, ACCESS) ? 0 : errno;
}

static int serve(int link, const char *kernels) {
  struct endpoint mine = {0}, theirs;
  void *module, *saxpy, *pinned;
  CUdeviceptr kept;
  open_gpu();
  open_hca(&mine);
  need(cuModuleLoad(&module, kernels) == 0, kernels);
  need(cuModuleGetFunction(&saxpy, module, "saxpy") == 0, "saxpy");
  need(cuMemAlloc_v2(&mine.x, BYTES) == 0 && cuMemAlloc_v2(&mine.y, BYTES) == 0, "memory");
  for (int i = 0; i < 8; i++) need(cuMemAlloc_v2(&kept, BYTES) == 0, "more memory");
  mine.far = kept;
  need(cuMemHostAlloc(&pinned, BYTES, 0) == 0, "pinned memory");
  mine.pinned = (uintptr_t)pinned;
  for (int i = 0; i < COUNT; i++) floats[i] = 1;
  need(cuMemcpyHtoD_v2(mine.y, floats, BYTES) == 0, "copy");
  struct ibv_mr *x = reg(mine.x, BYTES), *y = reg(mine.y, BYTES), *host = reg(mine.pinned, BYTES);
  struct ibv_mr *last = reg(kept + 4096, 8192);
  mine.x_key = x->rkey;
  mine.y_key = y->rkey;
  mine.pinned_key = host->rkey;
  tell(link, &mine, sizeof mine);
  receive_bytes(link, &theirs, sizeof theirs);
  join(&theirs);
  step(link);

  wait_for(link); /* x and the pinned memory are written */
  float two = 2;
  int count = COUNT, right = 0;
  void *arguments[] = {&two, &mine.x, &mine.y, &count};
  need(cuLaunchKernel(saxpy, COUNT / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, arguments, NULL) == 0,
       "launch");
  need(cuMemcpyDtoH_v2(floats, mine.y, BYTES) == 0, "copy");
  for (int i = 0; i < COUNT; i++) right += floats[i] == 2 * (float)i + 1;
  printf("kernel saw %d\n", right);
  for (int i = right = 0; i < COUNT; i++) right += ((float *)pinned)[i] == (float)i;
  printf("pinned memory has %d\n", right);
  printf("beyond its end %d\n", errno_of_reg(mine.x, (size_t)1 << 38));
  fflush(stdout);
  step(link);

  wait_for(link); /* y is read */
  printf("free %d\n", cuMemFree_v2(mine.x));
  printf("freed %d\n", errno_of_reg(mine.x, BYTES));
  fflush(stdout);
  step(link);

  wait_for(link); /* x could not be written, y could */
  printf("reset %d\n", cuDevicePrimaryCtxReset_v2(0));
  fflush(stdout);
  step(link);

  wait_for(link); /* nor y any more */
  printf("dereg %d %d %d %d\n", ibv_dereg_mr(x), ibv_dereg_mr(y), ibv_dereg_mr(host),
         ibv_dereg_mr(last));
  for (int i = 0; i < PAIRS; i++) ibv_destroy_qp(pairs[i]);
  printf("close %d %d", ibv_destroy_cq(cq), ibv_dealloc_pd(pd));
  printf(" %d\n", ibv_close_device(context));
  fflush(stdout);
  step(link);
  return 0;
}

static int write_and_read(int link) {
  struct endpoint mine = {0}, theirs;
  CUdeviceptr source;
  open_gpu();
  open_hca(&mine);
  need(cuMemAlloc_v2(&source, BYTES) == 0, "memory");
  for (int i = 0; i < COUNT; i++) floats[i] = (float)i;
  need(cuMemcpyHtoD_v2(source, floats, BYTES) == 0, "copy");
  struct ibv_mr *mr = reg(source, BYTES);
  tell(link, &mine, sizeof mine);
  receive_bytes(link, &theirs, sizeof theirs);
  join(&theirs);
  wait_for(link);

  printf("write %s\n", move(0, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.x, theirs.x_key));
  printf("write %s\n",
         move(0, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.pinned, theirs.pinned_key));
  printf("another's pointer %d\n", errno_of_reg(theirs.far, BYTES));
  fflush(stdout);
  step(link);

  wait_for(link);
  printf("read %s\n", move(0, IBV_WR_RDMA_READ, source, mr->lkey, theirs.y, theirs.y_key));
  int right = 0;
  need(cuMemcpyDtoH_v2(floats, source, BYTES) == 0, "copy");
  for (int i = 0; i < COUNT; i++) right += floats[i] == 2 * (float)i + 1;
  printf("read back %d\n", right);
  fflush(stdout);
  step(link);

  wait_for(link);
  printf("write %s\n", move(1, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.x, theirs.x_key));
  printf("write %s\n", move(0, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.y, theirs.y_key));
  fflush(stdout);
  step(link);

  wait_for(link);
  printf("write %s\n", move(0, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.y, theirs.y_key));
  printf("free %d\n", cuMemFree_v2(source));
  printf("own %s\n", move(2, IBV_WR_RDMA_WRITE, source, mr->lkey, theirs.x, theirs.x_key));
  printf("dereg %d\n", ibv_dereg_mr(mr));
  fflush(stdout);
  step(link);
  wait_for(link);
  return 0;
}

int main(int argc, char **argv) {
  int links[2];
  if (argc < 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, links) != 0) return 2;
  const pid_t child = fork(); /* before either has a GPU */
  if (child < 0) return 2;
  if (child == 0) {
    close(links[0]);
    return serve(links[1], argv[1]);
  }
  close(links[1]);
  int status = write_and_read(links[0]), ended = 0;
  waitpid(child, &ended, 0);
  return status ? status : ended != 0;
}
