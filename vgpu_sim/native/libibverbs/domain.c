/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "command.h"
#include "log.h"
#include "remap.h"

struct ibv_pd *tsr_ibv_alloc_pd(struct ibv_context *context) {
  struct ibv_pd *pd = calloc(1, sizeof *pd);
  if (!pd) return NULL;
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(context), TESSERA_HCA_MESSAGE_PD_CREATE, NULL, 0, &made,
                            sizeof made, NULL);
  *pd = (struct ibv_pd){.context = context, .handle = made.handle};
  if (error == 0) return pd;
  free(pd);
  errno = error;
  return NULL;
}

int tsr_ibv_dealloc_pd(struct ibv_pd *pd) {
  const int error =
      tsr_ask_handle(tsr_of(pd->context), TESSERA_HCA_MESSAGE_PD_DESTROY, pd->handle);
  if (error == 0) free(pd);
  return error;
}

static int make_region(struct tsr_context *context, struct tsr_mr *mr,
                       tessera_hca_mr_create *wanted) {
  const int error = tsr_pin(context, mr->ibv.addr, mr->ibv.length, wanted, mr->segments);
  if (error != 0) return error;
  tessera_hca_handle made = {0};
  const int refused = tsr_ask(context, TESSERA_HCA_MESSAGE_MR_CREATE, wanted, sizeof *wanted,
                              &made, sizeof made, NULL);
  if (refused == EOPNOTSUPP)
    tsr_log("ibv_reg_mr: access flags %#x are not supported", wanted->access);
  mr->piece_count = wanted->piece_count;
  if (refused != 0) tsr_unpin(context, mr->segments, mr->piece_count);
  mr->ibv.handle = mr->ibv.lkey = mr->ibv.rkey = made.handle;
  return refused;
}

struct ibv_mr *tsr_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned int access) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_mr *mr = calloc(1, sizeof *mr + TESSERA_HCA_MAX_PIECES * sizeof *mr->segments);
  tessera_hca_mr_create *wanted = calloc(1, sizeof *wanted);
  int error = ENOMEM;
  if (mr && wanted) {
    mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    /* Optional flags are hints: who cannot follow them ignores them. */
    wanted->access = access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    wanted->pd = pd->handle;
    wanted->iova = iova;
    wanted->bytes = length;
    pthread_mutex_lock(&context->registering);
    error = length == 0 ? EINVAL : make_region(context, mr, wanted);
    pthread_mutex_unlock(&context->registering);
  }
  free(wanted);
  if (error == 0) return &mr->ibv;
  free(mr);
  errno = error;
  return NULL;
}

struct ibv_mr *tsr_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
  return tsr_ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *tsr_ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   int access) {
  return tsr_ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

int tsr_ibv_dereg_mr(struct ibv_mr *ibv) {
  struct tsr_mr *mr = (struct tsr_mr *)ibv;
  struct tsr_context *context = tsr_of(ibv->context);
  pthread_mutex_lock(&context->registering);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_MR_DESTROY, ibv->handle);
  if (error == 0 || context->dead) tsr_unpin(context, mr->segments, mr->piece_count);
  pthread_mutex_unlock(&context->registering);
  if (error != 0 && !context->dead) return error;
  free(mr);
  return 0;
}
