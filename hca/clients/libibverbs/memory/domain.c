/* Protection domains, thread domains, parent domains and the verbs calls for memory regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "command/command.h"
#include "memory/implicit.h"
#include "memory/region.h"

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

/* Creating a thread domain promises that only one thread uses it; this library has no faster
 * path for that. */
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

/* Its allocators are not used: rings are in hcad's memory. */
struct ibv_pd *tsr_alloc_parent_domain(struct ibv_context *context,
                                       struct ibv_parent_domain_init_attr *attr) {
  const uint32_t known = 3; /* allocators and their context */
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

struct ibv_mr *tsr_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned int access) {
  struct tsr_context *context = tsr_of(pd->context);
  const bool implicit = access & IBV_ACCESS_ON_DEMAND && !addr && length == SIZE_MAX;
  pthread_mutex_lock(&context->registering);
  struct tsr_mr *mr = implicit ? tsr_implicit_new(pd, access)
                               : tsr_region_new(pd, addr, length, iova, access);
  pthread_mutex_unlock(&context->registering);
  return mr ? &mr->ibv : NULL;
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
  const int error = mr->implicit ? tsr_implicit_end(mr) : tsr_region_end(mr);
  pthread_mutex_unlock(&context->registering);
  return error;
}

static int change(struct tsr_context *context, struct tsr_mr *mr, struct tsr_mr *wanted) {
  pthread_mutex_lock(&context->registering);
  const int error = tsr_region_exchange(context, mr, wanted);
  pthread_mutex_unlock(&context->registering);
  return error;
}

int tsr_ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
                     int access) {
  struct tsr_mr *mr = (struct tsr_mr *)ibv;
  const int known =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
  int error = flags == 0 || flags & ~known || (moves && length == 0) ? EINVAL : 0;
  if (mr->implicit || mr->exported) error = EOPNOTSUPP;
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
