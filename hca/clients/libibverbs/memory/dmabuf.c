/* ibv_reg_dmabuf_mr: memory regions named by a descriptor of cuMemGetHandleForAddressRange()
 * (GPUDirect RDMA). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "memory/device_memory.h"
#include "log.h"
#include "memory/region.h"

/* Access flags that the kernel's drivers accept for them. */
enum {
  KNOWN_ACCESS = TESSERA_VERBS_ACCESS_LOCAL_WRITE | TESSERA_VERBS_ACCESS_REMOTE_WRITE |
                 TESSERA_VERBS_ACCESS_REMOTE_READ | TESSERA_VERBS_ACCESS_REMOTE_ATOMIC |
                 IBV_ACCESS_OPTIONAL_RANGE
};

/* Read the range that a descriptor names. EBADF: it is not open; EINVAL: it names none. gpud
 * verifies that the range is genuine. */
static int read_range(int fd, tessera_shared_range *range) {
  if (fcntl(fd, F_GETFD) < 0) return EBADF;
  const int seals = fcntl(fd, F_GET_SEALS); /* -1: not a memfd; opening another file might block */
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int readable = seals < 0 || !(seals & F_SEAL_WRITE) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = readable < 0 ? -1 : pread(readable, range, sizeof *range, 0);
  if (readable >= 0) close(readable);
  if (got == sizeof *range && range->magic == TESSERA_SHARED_RANGE_MAGIC) return 0;
  tsr_log("ibv_reg_dmabuf_mr: descriptor %d is none of cuMemGetHandleForAddressRange, and no other"
          " dma-buf can be registered", fd);
  return EINVAL;
}

static int register_shared(struct tsr_mr *mr, tessera_hca_mr_create *wanted, uint64_t offset,
                           int fd) {
  struct tsr_context *context = tsr_of(mr->ibv.context);
  tessera_hca_segment_shared shared = {.offset = offset, .bytes = mr->ibv.length};
  int error = read_range(fd, &shared.range);
  if (error != 0) return error;
  /* As in Linux: the request address and the memory must have the same offset in a page. */
  if (mr->ibv.length == 0 || (offset ^ mr->iova) % TESSERA_HCA_PAGE_BYTES != 0) return EINVAL;
  if (!(context->device.info.features & TESSERA_HCA_FEATURE_SHARED_RANGES)) {
    tsr_log("ibv_reg_dmabuf_mr: this node's hcad is too old for it");
    return EOPNOTSUPP;
  }
  error = tsr_find_shared(context, &shared, wanted, mr->segments);
  if (error == EFAULT)
    tsr_log("ibv_reg_dmabuf_mr: descriptor %d is of another process, its memory is freed, or it is"
            " shorter", fd);
  else if (error == ENODEV)
    tsr_log("ibv_reg_dmabuf_mr: no GPU daemon provides device memory to this HCA");
  return error ? error : tsr_region_register(context, mr, wanted);
}

struct ibv_mr *tsr_ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                     uint64_t iova, int fd, int access) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_mr *mr = calloc(1, sizeof *mr);
  tessera_hca_mr_create *wanted = calloc(1, sizeof *wanted);
  int error = ENOMEM;
  if (mr && wanted) {
    mr->ibv = (struct ibv_mr){.context = pd->context,
                              .pd = pd,
                              .addr = (void *)(uintptr_t)offset, /* as in rdma-core */
                              .length = length};
    mr->access = (unsigned)access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    mr->iova = iova;
    mr->exported = true;
    *wanted = (tessera_hca_mr_create){
        .pd = pd->handle, .access = mr->access, .iova = iova, .bytes = length};
    pthread_mutex_lock(&context->registering);
    error = access & ~KNOWN_ACCESS ? EINVAL : register_shared(mr, wanted, offset, fd);
    pthread_mutex_unlock(&context->registering);
  }
  free(wanted);
  if (error == 0) return &mr->ibv;
  free(mr);
  errno = error;
  return NULL;
}
