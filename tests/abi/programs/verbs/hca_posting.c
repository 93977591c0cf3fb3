/* Requests at their limits, for every interface that posts them. */
#include "hca_checked.h"

enum {
  SGES = TESSERA_HCA_MAX_SGE,
  INLINE = TESSERA_HCA_MAX_INLINE_BYTES,
  SEND = TESSERA_VERBS_OPCODE_SEND,
  SIGNALED = TESSERA_VERBS_SEND_SIGNALED,
};

static uint8_t *memory;
static struct ibv_mr *mr;
static struct ibv_sge list[SGES + 1];

/* A function that posts a chain of receives. */
struct receiver {
  struct ibv_qp *qp;
  struct ibv_srq *srq;
  struct ibv_wq *wq;
};

static int receive(const struct receiver *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  *bad = NULL;
  if (to->srq) return context->ops.post_srq_recv(to->srq, wr, bad);
  return to->wq ? to->wq->post_recv(to->wq, wr, bad) : context->ops.post_recv(to->qp, wr, bad);
}

/* With room for DEPTH requests: a refused one leaves nothing, and those before it are posted. */
static void check_receives(const struct receiver *to) {
  struct ibv_recv_wr wrs[DEPTH + 1], *bad;
  for (int i = 0; i <= DEPTH; i++)
    wrs[i] = (struct ibv_recv_wr){.next = i < DEPTH ? &wrs[i + 1] : NULL, .sg_list = list};
  struct ibv_recv_wr one = {.sg_list = list, .num_sge = SGES + 1};
  WANT(receive(to, &one, &bad) == EINVAL && bad == &one);
  one.num_sge = -1;
  WANT(receive(to, &one, &bad) == EINVAL && bad == &one);
  one.num_sge = SGES;
  WANT(receive(to, &one, &bad) == 0 && !bad);
  wrs[1].num_sge = SGES + 1;
  WANT(receive(to, wrs, &bad) == EINVAL && bad == &wrs[1]);
  wrs[1].num_sge = 0;
  WANT(receive(to, wrs, &bad) == ENOMEM && bad == &wrs[DEPTH - 2]); /* two were posted before */
  WANT(receive(to, &one, &bad) == ENOMEM && bad == &one);
}

static void receives(void) {
  struct ibv_recv_wr one = {.sg_list = list, .num_sge = 1}, *bad;
  struct receiver to = {.qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL)};
  WANT(receive(&to, &one, &bad) == EINVAL && bad == &one); /* in RESET */
  lead(to.qp, TESSERA_VERBS_STATE_RESET, TESSERA_VERBS_STATE_INIT);
  check_receives(&to);
  WANT(ibv_destroy_qp(to.qp) == 0);
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = DEPTH, .max_sge = SGES}};
  to = (struct receiver){.srq = ibv_create_srq(pd, &wanted)};
  check_receives(&to);
  struct receiver shares = {.qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, to.srq)};
  lead(shares.qp, TESSERA_VERBS_STATE_RESET, TESSERA_VERBS_STATE_INIT);
  WANT(receive(&shares, &one, &bad) == EINVAL && bad == &one); /* it has a shared receive queue */
  WANT(ibv_destroy_srq(to.srq) == EBUSY);
  WANT(ibv_destroy_qp(shares.qp) == 0);
  WANT(ibv_destroy_srq(to.srq) == 0);
  struct ibv_wq_init_attr frames = {.max_wr = DEPTH, .max_sge = SGES, .pd = pd, .cq = cq};
  struct ibv_wq *wq = verbs()->create_wq(context, &frames);
  if (!wq) { /* without CAP_NET_RAW */
    WANT(errno == EPERM);
    return;
  }
  WANT(frames.max_wr == DEPTH && frames.max_sge == SGES);
  to = (struct receiver){.wq = wq};
  WANT(receive(&to, &one, &bad) == EINVAL);
  struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
  WANT(verbs()->modify_wq(wq, &ready) == 0);
  check_receives(&to);
  WANT(verbs()->destroy_wq(wq) == 0);
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  *bad = NULL;
  return context->ops.post_send(qp, wr, bad);
}

static void states_of_sends(void) {
  struct ibv_qp *qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL);
  struct ibv_send_wr one = {.opcode = SEND}, *bad;
  struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
  for (int state = TESSERA_VERBS_STATE_RESET; state <= TESSERA_VERBS_STATE_RTS; state++) {
    if (state > 0) lead(qp, state - 1, state);
    const int expected = state == TESSERA_VERBS_STATE_RTS ? 0 : EINVAL;
    WANT(post(qp, &one, &bad) == expected && bad == (expected ? &one : NULL));
    ex->wr_start(ex);
    ex->wr_send(ex);
    WANT(ex->wr_complete(ex) == expected);
  }
  WANT(ibv_destroy_qp(qp) == 0);
}

/* In a ring of DEPTH requests a refused request leaves no trace and uses no room. */
static void sends(void) {
  struct ibv_qp *qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL);
  lead(qp, TESSERA_VERBS_STATE_RESET, TESSERA_VERBS_STATE_RTS);
  static const int OPCODES[] = {-1, TESSERA_VERBS_OPCODE_SEND_WITH_INV + 1,
                                TESSERA_VERBS_OPCODE_ATOMIC_WRITE};
  struct ibv_send_wr one = {.sg_list = list, .num_sge = 1}, *bad;
  for (unsigned i = 0; i < sizeof OPCODES / sizeof *OPCODES; i++) {
    one.opcode = OPCODES[i];
    WANT(post(qp, &one, &bad) == EOPNOTSUPP && bad == &one);
  }
  one.opcode = TESSERA_VERBS_OPCODE_BIND_MW;
  WANT(post(qp, &one, &bad) == EINVAL); /* without a window */
  struct ibv_mw *first = context->ops.alloc_mw(pd, TESSERA_VERBS_MW_TYPE_TYPE_1);
  one.bind_mw.mw = first;
  WANT(post(qp, &one, &bad) == EINVAL); /* a kind of request that cannot be posted */
  one = (struct ibv_send_wr){
      .wr_id = 1, .opcode = SEND, .sg_list = list, .num_sge = SGES + 1, .send_flags = SIGNALED};
  WANT(post(qp, &one, &bad) == EINVAL);
  one.num_sge = -1;
  WANT(post(qp, &one, &bad) == EINVAL);
  one.num_sge = SGES;
  WANT(post(qp, &one, &bad) == 0);
  struct ibv_wc done = next_wc();
  WANT(done.wr_id == 1 && done.status == 0 && done.opcode == TESSERA_VERBS_DONE_SEND);
  WANT(done.qp_num == qp->qp_num);
  struct ibv_sge halves[2] = {{.addr = (uintptr_t)memory, .length = INLINE / 2},
                              {.addr = (uintptr_t)memory, .length = INLINE / 2 + 1}};
  one = (struct ibv_send_wr){.wr_id = 2, .opcode = SEND, .sg_list = halves, .num_sge = 2};
  one.send_flags = SIGNALED | TESSERA_VERBS_SEND_INLINE;
  WANT(post(qp, &one, &bad) == ENOMEM);
  halves[1].length--;
  WANT(post(qp, &one, &bad) == 0);
  WANT(next_wc().wr_id == 2);
  halves[0].length = INLINE + 1;
  one.num_sge = 1;
  WANT(post(qp, &one, &bad) == ENOMEM);
  WANT(context->ops.dealloc_mw(first) == 0);
  WANT(ibv_destroy_qp(qp) == 0);
}

/* In SQD requests are accepted and wait, so that the ring becomes full. */
static struct ibv_qp *halted(void) {
  struct ibv_qp *qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL);
  lead(qp, TESSERA_VERBS_STATE_RESET, TESSERA_VERBS_STATE_RTS);
  struct ibv_qp_attr attr = {.qp_state = TESSERA_VERBS_STATE_SQD};
  WANT(ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE) == 0);
  return qp;
}

static void resume(struct ibv_qp *qp) {
  struct ibv_qp_attr attr = {.qp_state = TESSERA_VERBS_STATE_RTS};
  WANT(ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE) == 0);
}

static void full_ring(void) {
  struct ibv_qp *qp = halted();
  struct ibv_send_wr wrs[DEPTH + 1], *bad;
  for (int i = 0; i <= DEPTH; i++)
    wrs[i] = (struct ibv_send_wr){.wr_id = 10 + (unsigned)i,
                                  .next = i < DEPTH ? &wrs[i + 1] : NULL,
                                  .opcode = SEND,
                                  .send_flags = SIGNALED};
  WANT(post(qp, wrs, &bad) == ENOMEM && bad == &wrs[DEPTH]);
  struct ibv_mw *mw = context->ops.alloc_mw(pd, TESSERA_VERBS_MW_TYPE_TYPE_1);
  struct ibv_mw_bind bind = {.wr_id = 20, .send_flags = SIGNALED};
  const uint32_t key = mw->rkey;
  WANT(context->ops.bind_mw(qp, mw, &bind) == ENOMEM && mw->rkey == key);
  struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
  ex->wr_start(ex);
  ex->wr_send(ex);
  ex->wr_set_inline_data(ex, memory, 8);
  WANT(ex->wr_complete(ex) == ENOMEM);
  resume(qp);
  for (unsigned i = 0; i < DEPTH; i++) WANT(next_wc().wr_id == 10 + i);
  WANT(context->ops.bind_mw(qp, mw, &bind) == 0);
  WANT(mw->rkey == ((key & ~0xffu) | ((key + 1) & 0xff)));
  struct ibv_wc done = next_wc();
  WANT(done.wr_id == 20 && done.opcode == TESSERA_VERBS_DONE_BIND_MW && done.status == 0);
  WANT(context->ops.dealloc_mw(mw) == 0);
  WANT(ibv_destroy_qp(qp) == 0);
}

static void windows(void) {
  struct ibv_qp *qp = halted();
  struct ibv_pd *other = ibv_alloc_pd(context);
  struct ibv_mw *first = context->ops.alloc_mw(pd, TESSERA_VERBS_MW_TYPE_TYPE_1);
  struct ibv_mw *second = context->ops.alloc_mw(pd, TESSERA_VERBS_MW_TYPE_TYPE_2);
  struct ibv_mw *away = context->ops.alloc_mw(other, TESSERA_VERBS_MW_TYPE_TYPE_1);
  WANT(first->type == 1 && second->type == 2 && first->pd == pd && away->pd == other);
  const struct ibv_mw_bind_info all = {
      .mr = mr, .addr = (uintptr_t)memory, .length = mr->length, .mw_access_flags = LOCAL_WRITE};
  struct ibv_mw_bind bind = {.bind_info = all};
  WANT(context->ops.bind_mw(qp, second, &bind) == EINVAL);
  WANT(context->ops.bind_mw(qp, away, &bind) == EPERM);
  bind.bind_info.mr = NULL;
  WANT(context->ops.bind_mw(qp, first, &bind) == EPERM);
  bind.bind_info = all;
  bind.bind_info.mw_access_flags = TESSERA_VERBS_ACCESS_ZERO_BASED;
  WANT(context->ops.bind_mw(qp, first, &bind) == EINVAL);
  bind.bind_info = all;
  bind.bind_info.length++;
  WANT(context->ops.bind_mw(qp, first, &bind) == EINVAL);
  bind.bind_info = all;
  WANT(context->ops.bind_mw(qp, first, &bind) == 0);
  bind.bind_info = (struct ibv_mw_bind_info){.length = 0};
  WANT(context->ops.bind_mw(qp, first, &bind) == 0); /* unbinds */
  WANT(ibv_destroy_qp(qp) == 0);
  qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL);
  WANT(context->ops.bind_mw(qp, first, &bind) == EINVAL); /* in RESET */
  WANT(ibv_destroy_qp(qp) == 0);
  WANT(ibv_dealloc_pd(other) == EBUSY);
  WANT(!context->ops.dealloc_mw(first) && !context->ops.dealloc_mw(second));
  WANT(!context->ops.dealloc_mw(away) && !ibv_dealloc_pd(other));
  REFUSED(EINVAL, context->ops.alloc_mw(pd, 0));
  REFUSED(EINVAL, context->ops.alloc_mw(pd, 3));
}

/* If any call of a batch is wrong, nothing of the batch is posted; the next batch is posted. */
static void builder(void) {
  struct ibv_qp *qp = halted();
  struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
  struct ibv_mw *first = context->ops.alloc_mw(pd, TESSERA_VERBS_MW_TYPE_TYPE_1);
  const struct ibv_data_buf halves[2] = {{memory, INLINE / 2}, {memory, INLINE / 2 + 1}};
  const struct ibv_mw_bind_info info = {.mr = mr};
  static const int EXPECTED[] = {EINVAL, ENOMEM, ENOMEM, EINVAL, EOPNOTSUPP, EOPNOTSUPP, 0};
  ex->wr_flags = SIGNALED;
  for (unsigned i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++) {
    ex->wr_start(ex);
    ex->wr_id = 100 + i;
    ex->wr_send(ex);
    if (i == 0) ex->wr_set_sge_list(ex, SGES + 1, list);
    if (i == 1) ex->wr_set_inline_data(ex, memory, INLINE + 1);
    if (i == 2) ex->wr_set_inline_data_list(ex, 2, halves);
    if (i == 3) ex->wr_bind_mw(ex, first, 0, &info);
    if (i == 4) ex->wr_send_tso(ex, memory, 14, 100);
    if (i == 5) ex->wr_set_xrc_srqn(ex, 1);
    if (i == 6) ex->wr_set_sge_list(ex, SGES, list);
    ex->wr_id = 200 + i;
    ex->wr_send(ex); /* ignored after an error */
    ex->wr_set_inline_data(ex, memory, INLINE);
    WANT(ex->wr_complete(ex) == EXPECTED[i]);
  }
  ex->wr_start(ex);
  ex->wr_id = 300;
  ex->wr_send(ex);
  ex->wr_set_inline_data(ex, memory, 1);
  ex->wr_abort(ex);
  resume(qp);
  WANT(next_wc().wr_id == 106);
  WANT(next_wc().wr_id == 206);
  struct ibv_send_wr last = {.wr_id = 7, .opcode = SEND, .send_flags = SIGNALED}, *bad;
  WANT(post(qp, &last, &bad) == 0 && next_wc().wr_id == 7);
  WANT(context->ops.dealloc_mw(first) == 0);
  WANT(ibv_destroy_qp(qp) == 0);
}

int main(void) {
  begin();
  memory = calloc(1, 4096);
  mr = ibv_reg_mr(pd, memory, 4096, LOCAL_WRITE | TESSERA_VERBS_ACCESS_MW_BIND);
  for (int i = 0; i <= SGES; i++)
    list[i] = (struct ibv_sge){.addr = (uintptr_t)memory, .length = 1, .lkey = mr->lkey};
  receives();
  states_of_sends();
  sends();
  full_ring();
  windows();
  builder();
  WANT(ibv_dereg_mr(mr) == 0);
  return end();
}
