/* Two processes that register device memory by descriptor; each line reports what one has
 * observed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
int cuMemFree_v2(CUdeviceptr address);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
int cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes, int type,
                                  unsigned long long flags);

enum { PAGE = 4096, BYTES = 4 << 20, PART = 64 << 10, DMA_BUF_FD = 1, DMA_BUF_SUPPORTED = 124 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
#define IOVA UINT64_C(0x5000)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *pair[3];
static char host[PART], back[BYTES];

static void need(int works, const char *what) {
  if (works) return;
  printf("%s failed: %s\n", what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static void open_both(void) {
  void *primary;
  need(cuInit(0) == 0, "cuInit");
  need(cuDevicePrimaryCtxRetain(&primary, 0) == 0 && cuCtxSetCurrent(primary) == 0, "context");
  struct ibv_device **list = ibv_get_device_list(NULL);
  context = list && *list ? ibv_open_device(*list) : NULL;
  need(context != NULL, "device");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
}

static int export(CUdeviceptr address, size_t bytes, int *fd) {
  *fd = -1;
  return cuMemGetHandleForAddressRange(fd, address, bytes, DMA_BUF_FD, 0);
}

static struct ibv_mr *reg(uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  errno = 0;
  return ibv_reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
}

static int errno_of(uint64_t offset, size_t bytes, uint64_t iova, int fd, int access) {
  return reg(offset, bytes, iova, fd, access) ? 0 : errno;
}

/* Connect two queue pairs of this process, and return the status of a request between them. */
static const char *write_to(uint64_t remote, uint32_t remote_key, struct ibv_mr *from) {
  for (int i = 0; i < 2; i++) {
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    need((pair[i] = ibv_create_qp(pd, &wanted)) != NULL, "queue pair");
  }
  union ibv_gid gid;
  ibv_query_gid(context, 1, 1, &gid);
  for (int i = 0; i < 2; i++) {
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)ACCESS};
    struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = pair[!i]->qp_num,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1,
                                          .port_num = 1,
                                          .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}}};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};
    need(!ibv_modify_qp(pair[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                            IBV_QP_ACCESS_FLAGS) &&
             !ibv_modify_qp(pair[i], &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                               IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) &&
             !ibv_modify_qp(pair[i], &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                               IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                               IBV_QP_MAX_QP_RD_ATOMIC), "connect");
  }
  struct ibv_sge sge = {.addr = (uintptr_t)host, .length = PART, .lkey = from->lkey};
  struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {.remote_addr = remote, .rkey = remote_key}};
  need(ibv_post_send(pair[0], &wr, &bad) == 0, "post");
  struct ibv_wc done;
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  for (int i = 0; i < 2; i++) need(ibv_destroy_qp(pair[i]) == 0, "destroy");
  return ibv_wc_status_str(done.status);
}

static void say_what_is_refused(CUdeviceptr memory, int fd) {
  CUdeviceptr small;
  void *pinned;
  int other, tunnel[2];
  need(cuMemAlloc_v2(&small, 1000) == 0 && cuMemHostAlloc(&pinned, BYTES, 0) == 0, "memory");
  printf("export %d %d %d %d %d %d %d\n", export(memory + 1, PAGE, &other),
         export(memory, PAGE + 1, &other), export(memory, BYTES + PAGE, &other),
         export(memory, 0, &other), export(small, PAGE, &other),
         export((uintptr_t)pinned, PAGE, &other),
         cuMemGetHandleForAddressRange(&other, memory, PAGE, 2, 0));
  printf("flags %d\n", cuMemGetHandleForAddressRange(&other, memory, PAGE, DMA_BUF_FD, 1));
  need(pipe(tunnel) == 0, "pipe");
  const int file = memfd_create("mine", MFD_ALLOW_SEALING), copy = memfd_create("c", MFD_ALLOW_SEALING);
  /* A forgery: the content of a real descriptor, with another length. */
  char path[32];
  uint64_t words[8];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int readable = open(path, O_RDONLY);
  need(readable >= 0 && read(readable, words, sizeof words) == sizeof words, "read");
  words[3] -= PAGE;
  need(write(copy, words, sizeof words) == sizeof words && ftruncate(file, PAGE) == 0, "copy");
  for (int i = 0; i < 2; i++)
    fcntl(i ? copy : file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  printf("no descriptor %d pipe %d directory %d file %d forged %d\n",
         errno_of(0, PAGE, 0, -1, ACCESS), errno_of(0, PAGE, 0, tunnel[0], ACCESS),
         errno_of(0, PAGE, 0, open("/", O_RDONLY), ACCESS), errno_of(0, PAGE, 0, file, ACCESS),
         errno_of(0, PAGE, 0, copy, ACCESS));
  printf("beyond %d %d empty %d place %d access %d\n", errno_of(0, BYTES + PAGE, 0, fd, ACCESS),
         errno_of(BYTES, PAGE, 0, fd, ACCESS), errno_of(0, 0, 0, fd, ACCESS),
         errno_of(PAGE, PAGE, 1, fd, ACCESS), errno_of(0, PAGE, 0, fd, ACCESS | IBV_ACCESS_ON_DEMAND));
  errno = 0;
  printf("map %d read %d", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
         read(fd, words, 8) < 0);
  printf(" write %d size %d\n", write(fd, words, 8) < 0, (int)lseek(fd, 0, SEEK_END));
}

static int own(int link) {
  CUdeviceptr memory;
  int value = 0, fd, right = 0;
  open_both();
  need(cuDeviceGetAttribute(&value, DMA_BUF_SUPPORTED, 0) == 0, "attribute");
  need(cuMemAlloc_v2(&memory, BYTES) == 0, "memory");
  memset(host, 'x', sizeof host);
  printf("supported %d export %d\n", value, export(memory, BYTES, &fd));
  struct ibv_mr *from = ibv_reg_mr(pd, host, PART, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr *to = reg(2 * PAGE, BYTES - 2 * PAGE, IOVA, fd, ACCESS);
  need(from && to, "ibv_reg_dmabuf_mr");
  printf("write %s\n", write_to(IOVA + PAGE, to->rkey, from));
  need(cuMemcpyDtoH_v2(back, memory, BYTES) == 0, "copy");
  for (int i = 0; i < BYTES; i++) right += (back[i] == 'x') == (i >= 3 * PAGE && i < 3 * PAGE + PART);
  printf("right %d\n", right == BYTES);
  printf("rereg %d\n", ibv_rereg_mr(to, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0));
  say_what_is_refused(memory, fd);
  fflush(stdout);

  /* Another process gets the descriptor; it has its own context. */
  char byte = 0, room[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec one = {&byte, 1};
  struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room,
                           .msg_controllen = sizeof room};
  struct cmsghdr *part = CMSG_FIRSTHDR(&message);
  *part = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(part), &fd, sizeof fd);
  need(sendmsg(link, &message, 0) == 1 && recv(link, &byte, 1, 0) == 1, "the other process");

  printf("free %d\n", cuMemFree_v2(memory));
  printf("write %s\n", write_to(IOVA + PAGE, to->rkey, from));
  printf("freed %d", errno_of(0, PAGE, 0, fd, ACCESS));
  CUdeviceptr again;
  need(cuMemAlloc_v2(&again, BYTES) == 0, "memory");
  printf(" again %d %d\n", again == memory, errno_of(0, PAGE, 0, fd, ACCESS));
  printf("dereg %d reset %d\n", ibv_dereg_mr(to), cuDevicePrimaryCtxReset_v2(0));
  return 0;
}

static int another(int link) {
  char byte, room[CMSG_SPACE(sizeof(int))];
  struct iovec one = {&byte, 1};
  struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room,
                           .msg_controllen = sizeof room};
  int fd;
  CUdeviceptr memory;
  open_both();
  need(cuMemAlloc_v2(&memory, BYTES) == 0, "memory");
  need(recvmsg(link, &message, 0) == 1, "descriptor");
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  printf("another's %d", errno_of(0, PAGE, 0, fd, ACCESS));
  need(export(memory, BYTES, &fd) == 0, "export");
  printf(" own %d\n", errno_of(0, PAGE, 0, fd, ACCESS));
  fflush(stdout);
  need(send(link, "", 1, 0) == 1, "send");
  return 0;
}

int main(void) {
  int links[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, links) != 0) return 2;
  const pid_t child = fork(); /* before either has a GPU */
  if (child < 0) return 2;
  if (child == 0) {
    close(links[0]);
    return another(links[1]);
  }
  close(links[1]);
  const int status = own(links[0]);
  int ended = 0;
  fflush(stdout);
  waitpid(child, &ended, 0);
  return status ? status : ended != 0;
}
