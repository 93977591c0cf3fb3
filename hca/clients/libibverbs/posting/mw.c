/* Memory windows. */
#include <errno.h>
#include <stdlib.h>

#include "command/command.h"
#include "posting/post.h"
#include "verbs_calls.h"

struct ibv_mw *tsr_alloc_mw(struct ibv_pd *pd, int type) {
  struct ibv_mw *mw = calloc(1, sizeof *mw);
  if (!mw) return NULL;
  const tessera_hca_mw_create wanted = {.pd = pd->handle, .type = (uint32_t)type};
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(pd->context), TESSERA_HCA_MESSAGE_MW_CREATE, &wanted,
                            sizeof wanted, &made, sizeof made, NULL);
  *mw = (struct ibv_mw){.context = pd->context,
                        .pd = pd,
                        .rkey = made.handle,
                        .handle = made.handle,
                        .type = type};
  if (error == 0) return mw;
  free(mw);
  errno = error;
  return NULL;
}

int tsr_dealloc_mw(struct ibv_mw *mw) {
  struct tsr_context *context = tsr_of(mw->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_MW_DESTROY, mw->handle);
  if (error != 0 && !context->dead) return error;
  free(mw);
  return 0;
}

/* Return the next key of a window: its lowest 8 bits count up. */
static uint32_t next_key(uint32_t key) { return (key & ~UINT32_C(0xff)) | ((key + 1) & 0xff); }

/* Make the checks that the inline function omits: it compares only the window's type. */
static int check(const struct ibv_mw *mw, const struct ibv_mw_bind_info *info) {
  if (mw->type != TESSERA_VERBS_MW_TYPE_TYPE_1) return EINVAL;
  if (info->length == 0) return 0;
  if (!info->mr || info->mr->pd != mw->pd) return EPERM;
  if (info->mw_access_flags & TESSERA_VERBS_ACCESS_ZERO_BASED) return EINVAL;
  return info->length > info->mr->length ? EINVAL : 0;
}

int tsr_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind) {
  struct tsr_qp *qp = (struct tsr_qp *)ibv;
  int error = check(mw, &bind->bind_info);
  if (error != 0) return error;
  pthread_mutex_lock(&qp->sending);
  tessera_hca_send_slot *slot = tsr_send_slot(qp, qp->send_head);
  error = !tsr_may_send(qp) ? EINVAL : !slot ? ENOMEM : 0;
  if (error == 0) {
    const uint32_t key = next_key(mw->rkey);
    slot->id = bind->wr_id;
    slot->flags = bind->send_flags;
    slot->sge_count = slot->inline_bytes = 0;
    tsr_fill_bind(slot, mw, key, &bind->bind_info);
    tsr_send_publish(qp, qp->send_head + 1);
    mw->rkey = key;
  }
  pthread_mutex_unlock(&qp->sending);
  return error;
}
