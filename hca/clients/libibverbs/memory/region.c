/* Creation, replacement and removal of memory regions. The caller holds the context's
 * `registering`. */
#include "memory/region.h"

#include <errno.h>
#include <stdlib.h>

#include "command/command.h"
#include "memory/device_memory.h"
#include "log.h"
#include "memory/paging.h"
#include "memory/remap.h"

int tsr_region_register(struct tsr_context *context, struct tsr_mr *mr,
                        tessera_hca_mr_create *wanted) {
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

static int make_region(struct tsr_context *context, struct tsr_mr *mr,
                       tessera_hca_mr_create *wanted) {
  const int error =
      tsr_find_memory(context, mr->ibv.addr, mr->ibv.length, wanted, mr->segments);
  return error ? error : tsr_region_register(context, mr, wanted);
}

/* hcad does not implement on-demand paging, so its flags are removed, and those that depend on
 * it. */
static unsigned without_paging(unsigned access) {
  return access & IBV_ACCESS_ON_DEMAND ? access & ~(unsigned)TSR_PAGING_FLAGS : access;
}

struct tsr_mr *tsr_region_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                              unsigned access) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_mr *mr = calloc(1, sizeof(struct tsr_mr));
  tessera_hca_mr_create *wanted = calloc(1, sizeof *wanted);
  int error = ENOMEM;
  if (mr && wanted) {
    mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    /* Optional flags are hints, which may be ignored. */
    mr->access = access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    wanted->access = without_paging(mr->access);
    mr->iova = iova;
    wanted->pd = pd->handle;
    wanted->iova = iova;
    wanted->bytes = length;
    error = length == 0 ? EINVAL : make_region(context, mr, wanted);
    if (error == 0) tsr_paging_add(context, mr);
  }
  free(wanted);
  if (error == 0) return mr;
  free(mr);
  errno = error;
  return NULL;
}

int tsr_region_end(struct tsr_mr *mr) {
  struct tsr_context *context = tsr_of(mr->ibv.context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_MR_DESTROY, mr->ibv.handle);
  if (error != 0 && !context->dead) return error;
  tsr_unpin(context, mr->segments, mr->piece_count);
  tsr_paging_remove(context, mr);
  free(mr);
  return 0;
}

int tsr_region_exchange(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted) {
  tessera_hca_mr_create *request = calloc(1, sizeof *request);
  if (!request) return ENOMEM;
  *request = (tessera_hca_mr_create){.pd = wanted->ibv.pd->handle,
                                     .access = without_paging(wanted->access),
                                     .iova = wanted->iova,
                                     .bytes = wanted->ibv.length,
                                     .replaced = mr->ibv.handle};
  const int error = make_region(context, wanted, request);
  if (error == 0) {
    tsr_unpin(context, mr->segments, mr->piece_count);
    tsr_paging_remove(context, mr);
    *mr = *wanted;
    tsr_paging_add(context, mr);
  }
  free(request);
  return error;
}

int tsr_region_renew(struct tsr_context *context, struct tsr_mr *mr) {
  struct tsr_mr *again = calloc(1, sizeof *again);
  if (!again) return ENOMEM;
  *again = *mr;
  const int error = tsr_region_exchange(context, mr, again);
  free(again);
  return error;
}
