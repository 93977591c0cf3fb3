/* ibv_advise_mr: registers the pages that the program has mapped in the range of a region with
 * on-demand paging since its registration. */
#include <errno.h>

#include "memory/implicit.h"
#include "memory/region.h"
#include "memory/remap.h"
#include "verbs_calls.h"

static int prefetch_part(struct tsr_mr *mr, const struct ibv_pd *pd, int advice,
                         const struct ibv_sge *range) {
  if (mr->ibv.pd->handle != pd->handle) return EPERM;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      !(mr->access & TESSERA_VERBS_ACCESS_LOCAL_WRITE))
    return EPERM;
  uint32_t key;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || range->length == 0) return 0;
  return tsr_implicit_part(mr, range->addr, range->length, &key);
}

static int prefetch(struct tsr_context *context, const struct ibv_pd *pd, int advice,
                    const struct ibv_sge *range) {
  for (struct tsr_mr *mr = context->implicit; mr; mr = mr->implicit->next)
    if (mr->ibv.lkey == range->lkey) return prefetch_part(mr, pd, advice, range);
  struct tsr_mr *mr = context->paged;
  while (mr && mr->ibv.lkey != range->lkey) mr = mr->next_paged;
  if (!mr) return EFAULT;
  if (mr->ibv.pd->handle != pd->handle) return EPERM;
  const uint64_t offset = range->addr - mr->iova;
  if (offset > mr->ibv.length || range->length > mr->ibv.length - offset) return EFAULT;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      !(mr->access & TESSERA_VERBS_ACCESS_LOCAL_WRITE))
    return EPERM;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (unsigned i = 0; i < mr->piece_count; i++)
    if (!tsr_is_pinned(mr->segments[i], mr->ibv.addr, mr->ibv.length))
      return tsr_region_renew(context, mr);
  return 0;
}

int tsr_advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *ranges,
                  uint32_t count) {
  if (advice < 0 || advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
  if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || count == 0) return EINVAL;
  struct tsr_context *context = tsr_of(pd->context);
  pthread_mutex_lock(&context->registering);
  int error = 0;
  for (uint32_t i = 0; i < count && error == 0; i++)
    error = prefetch(context, pd, advice, &ranges[i]);
  pthread_mutex_unlock(&context->registering);
  return error;
}
