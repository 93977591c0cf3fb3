/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "command.h"
#include "device_memory.h"
#include "domain.h"
#include "log.h"
#include "paging.h"
#include "remap.h"

struct ibv_pd *tsr_ibv_alloc_pd(struct ibv_context *context) {
  struct tsr_pd *pd = calloc(1, sizeof *pd);
  if (!pd) return NULL;
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(context), TESSERA_HCA_MESSAGE_PD_CREATE, NULL, 0, &made,
                            sizeof made, NULL);
  pd->ibv = (struct ibv_pd){.context = context, .handle = made.handle};
  if (error == 0) return &pd->ibv;
  free(pd);
  errno = error;
  return NULL;
}

static void use(struct ibv_context *context, struct tsr_pd *parent, struct tsr_td *thread,
                unsigned change) {
  pthread_mutex_lock(&context->mutex);
  parent->users += change;
  if (thread) thread->users += change;
  pthread_mutex_unlock(&context->mutex);
}

int tsr_ibv_dealloc_pd(struct ibv_pd *ibv) {
  struct tsr_pd *pd = (struct tsr_pd *)ibv;
  if (pd->parent) {
    use(ibv->context, pd->parent, pd->thread, -1u);
    free(pd);
    return 0;
  }
  if (pd->users != 0) return EBUSY;
  const int error =
      tsr_ask_handle(tsr_of(ibv->context), TESSERA_HCA_MESSAGE_PD_DESTROY, ibv->handle);
  if (error == 0) free(pd);
  return error;
}

/* A promise to use objects from one thread; there is nothing here that would be faster for it. */
struct ibv_td *tsr_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr) {
  if (attr->comp_mask != 0) {
    errno = EINVAL;
    return NULL;
  }
  struct tsr_td *td = calloc(1, sizeof *td);
  if (!td) return NULL;
  td->ibv.context = context;
  return &td->ibv;
}

int tsr_dealloc_td(struct ibv_td *ibv) {
  struct tsr_td *td = (struct tsr_td *)ibv;
  if (td->users != 0) return EBUSY;
  free(td);
  return 0;
}

/* Its allocators are not needed: rings are hcad's memory. */
struct ibv_pd *tsr_alloc_parent_domain(struct ibv_context *context,
                                       struct ibv_parent_domain_init_attr *attr) {
  const uint32_t known = 3; /* allocators, and their context */
  struct tsr_pd *base = (struct tsr_pd *)attr->pd;
  if (!base || base->parent || attr->comp_mask & ~known) {
    errno = EINVAL;
    return NULL;
  }
  struct tsr_pd *pd = calloc(1, sizeof *pd);
  if (!pd) return NULL;
  pd->ibv = (struct ibv_pd){.context = context, .handle = base->ibv.handle};
  pd->parent = base;
  pd->thread = (struct tsr_td *)attr->td;
  use(context, base, pd->thread, 1);
  return &pd->ibv;
}

static int make_region(struct tsr_context *context, struct tsr_mr *mr,
                       tessera_hca_mr_create *wanted) {
  const int error =
      tsr_find_memory(context, mr->ibv.addr, mr->ibv.length, wanted, mr->segments);
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

/* hcad knows nothing of on-demand paging; what the flags ask for without it is not to be had. */
static unsigned without_paging(unsigned access) {
  return access & IBV_ACCESS_ON_DEMAND ? access & ~(unsigned)TSR_PAGING_FLAGS : access;
}

struct ibv_mr *tsr_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned int access) {
  struct tsr_context *context = tsr_of(pd->context);
  struct tsr_mr *mr = calloc(1, sizeof(struct tsr_mr));
  tessera_hca_mr_create *wanted = calloc(1, sizeof *wanted);
  int error = ENOMEM;
  if (mr && wanted) {
    mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    /* Optional flags are hints: who cannot follow them ignores them. */
    mr->access = access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    wanted->access = without_paging(mr->access);
    mr->iova = iova;
    wanted->pd = pd->handle;
    wanted->iova = iova;
    wanted->bytes = length;
    pthread_mutex_lock(&context->registering);
    error = length == 0 ? EINVAL : tsr_paging_refused(mr);
    if (error == 0) error = make_region(context, mr, wanted);
    if (error == 0) tsr_paging_add(context, mr);
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
  if (error == 0 || context->dead) {
    tsr_unpin(context, mr->segments, mr->piece_count);
    tsr_paging_remove(context, mr);
  }
  pthread_mutex_unlock(&context->registering);
  if (error != 0 && !context->dead) return error;
  free(mr);
  return 0;
}

/* Makes a region of other pages, domain or access, which takes over the key of the old one. */
static int exchange(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted) {
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

static int change(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted) {
  pthread_mutex_lock(&context->registering);
  int error = tsr_paging_refused(wanted);
  if (error == 0) error = exchange(context, mr, wanted);
  pthread_mutex_unlock(&context->registering);
  return error;
}

int tsr_region_renew(struct tsr_context *context, struct tsr_mr *mr) {
  struct tsr_mr *again = calloc(1, sizeof *again);
  if (!again) return ENOMEM;
  *again = *mr;
  const int error = exchange(context, mr, again);
  free(again);
  return error;
}

int tsr_ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                     int access) {
  struct tsr_mr *mr = (struct tsr_mr *)ibv;
  const int known =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
  int error = flags == 0 || flags & ~known || (moves && length == 0) ? EINVAL : 0;
  struct tsr_mr *wanted = error ? NULL : calloc(1, sizeof *wanted);
  if (wanted) {
    wanted->ibv = *ibv;
    wanted->access = mr->access;
    wanted->iova = mr->iova;
    if (flags & IBV_REREG_MR_CHANGE_PD) wanted->ibv.pd = pd;
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
      wanted->access = (unsigned)access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    if (moves) {
      wanted->ibv.addr = addr;
      wanted->ibv.length = length;
      wanted->iova = (uintptr_t)addr;
    }
    error = change(tsr_of(ibv->context), mr, wanted);
    free(wanted);
  } else if (!error) {
    error = ENOMEM;
  }
  if (error == 0) return 0;
  errno = error;
  return IBV_REREG_MR_ERR_INPUT;
}
