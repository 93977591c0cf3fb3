/* Calls through pointers that are not supported yet. */
#include <errno.h>

#include "unsupported.h"
#include "verbs_calls.h"

static void refuse(const char *what) {
  static uint32_t said;
  tsr_unsupported(what, "EOPNOTSUPP", &said);
}

int tsr_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  (void)srq;
  *bad = wr;
  refuse("ibv_post_srq_recv");
  return EOPNOTSUPP;
}

struct ibv_mw *tsr_alloc_mw(struct ibv_pd *pd, int type) {
  (void)pd, (void)type;
  refuse("ibv_alloc_mw");
  errno = EOPNOTSUPP;
  return NULL;
}

int tsr_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind) {
  (void)qp, (void)mw, (void)bind;
  refuse("ibv_bind_mw");
  return EOPNOTSUPP;
}

int tsr_dealloc_mw(struct ibv_mw *mw) {
  (void)mw;
  refuse("ibv_dealloc_mw");
  return EOPNOTSUPP;
}
