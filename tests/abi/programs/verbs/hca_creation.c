/* Creation of objects at their limits, and the state after a refusal. */
#include "hca_checked.h"

#include <fcntl.h>
#include <unistd.h>

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access);

enum {
  SGES = TESSERA_HCA_MAX_SGE,
  INLINE = TESSERA_HCA_MAX_INLINE_BYTES,
  UC = TESSERA_VERBS_QP_TYPE_UC,
  RAW = TESSERA_VERBS_QP_TYPE_RAW_PACKET,
};

static void completion_queues(void) {
  static const struct {
    int entries, vector, made; /* resulting number of entries, a power of two; 0: refused */
  } ROWS[] = {{0, 0, 0},  {-1, 0, 0}, {1, 0, 1},     {2, 0, 2}, {3, 0, 4},
              {1, 1, 0},  {1, -1, 0}, {65536, 0, 65536}, {65537, 0, 0}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    struct ibv_cq_init_attr_ex wide = {.cqe = (uint32_t)ROWS[i].entries,
                                       .comp_vector = (uint32_t)ROWS[i].vector};
    for (int is_wide = 0; is_wide < 2; is_wide++) {
      errno = 0;
      struct ibv_cq *made =
          is_wide ? &verbs()->create_cq_ex(context, &wide)->base
                  : ibv_create_cq(context, ROWS[i].entries, &failures, NULL, ROWS[i].vector);
      if ((made != NULL) != (ROWS[i].made != 0)) printf("row %u %d\n", i, is_wide), failures++;
      if (!made) WANT(errno == EINVAL);
      if (!made) continue;
      WANT(made->cqe == ROWS[i].made && made->cq_context == (is_wide ? NULL : &failures));
      WANT(ibv_resize_cq(made, 0) == EINVAL && ibv_resize_cq(made, -1) == EINVAL);
      WANT(ibv_resize_cq(made, 65537) == EINVAL && made->cqe == ROWS[i].made);
      WANT(ibv_resize_cq(made, 5) == 0 && made->cqe == 8);
      WANT(ibv_destroy_cq(made) == 0);
    }
  }
  struct ibv_cq_init_attr_ex wide = {.cqe = 1};
  static const struct {
    uint64_t wc_flags;
    uint32_t comp_mask, flags;
    int error;
  } WIDE[] = {{0xfff, 0, 0, EOPNOTSUPP},
              {0x8ff, 0, 0, 0},
              {1 << 8, 0, 0, EOPNOTSUPP},
              {0, 1, 1, 0},
              {0, 1, 2, EOPNOTSUPP},
              {0, 2, 2, 0}, /* flags are ignored */
              {0, 4, 0, EOPNOTSUPP}};
  for (unsigned i = 0; i < sizeof WIDE / sizeof *WIDE; i++) {
    wide.wc_flags = WIDE[i].wc_flags;
    wide.comp_mask = WIDE[i].comp_mask;
    wide.flags = WIDE[i].flags;
    errno = 0;
    struct ibv_cq_ex *made = verbs()->create_cq_ex(context, &wide);
    if ((made ? 0 : errno) != WIDE[i].error) printf("wide %u: %d\n", i, errno), failures++;
    if (made) WANT(ibv_destroy_cq(&made->base) == 0);
  }
  wide = (struct ibv_cq_init_attr_ex){.cqe = 0x80000000u};
  REFUSED(EINVAL, verbs()->create_cq_ex(context, &wide));
  wide = (struct ibv_cq_init_attr_ex){.cqe = 1, .comp_vector = 0x80000000u};
  REFUSED(EINVAL, verbs()->create_cq_ex(context, &wide));
}

/* A completion queue is a user of its channel. It is in use while a queue pair refers to it, for
 * either direction. */
static void users(void) {
  struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
  struct ibv_cq *one = ibv_create_cq(context, 4, NULL, channel, 0);
  struct ibv_cq *two = ibv_create_cq(context, 4, NULL, channel, 0);
  WANT(channel->refcnt == 2 && one->channel == channel);
  WANT(ibv_destroy_comp_channel(channel) == EBUSY);
  struct ibv_qp_init_attr wanted = {
      .send_cq = one, .recv_cq = two, .cap = {1, 1, 1, 1, 0}, .qp_type = UC};
  struct ibv_qp *qp = ibv_create_qp(pd, &wanted);
  WANT(ibv_destroy_cq(one) == EBUSY && ibv_destroy_cq(two) == EBUSY);
  WANT(ibv_destroy_qp(qp) == 0);
  WANT(ibv_destroy_cq(one) == 0 && channel->refcnt == 1);
  WANT(ibv_destroy_comp_channel(channel) == EBUSY);
  WANT(ibv_destroy_cq(two) == 0 && channel->refcnt == 0);
  WANT(ibv_destroy_comp_channel(channel) == 0);
}

static void queue_pairs(void) {
  const struct ibv_qp_init_attr good = {
      .send_cq = cq, .recv_cq = cq, .cap = {3, 5, SGES, SGES, INLINE}, .qp_type = UC, .sq_sig_all = 1};
  struct ibv_qp_init_attr attr = good, init;
  struct ibv_qp_attr now;
  attr.qp_context = &failures;
  struct ibv_qp *qp = ibv_create_qp(pd, &attr);
  WANT(attr.cap.max_send_wr == 4 && attr.cap.max_recv_wr == 8);
  WANT(attr.cap.max_send_sge == SGES && attr.cap.max_recv_sge == SGES);
  WANT(attr.cap.max_inline_data == INLINE && qp->qp_context == &failures);
  WANT(qp->state == TESSERA_VERBS_STATE_RESET && qp->qp_type == UC && qp->pd == pd);
  WANT(ibv_query_qp(qp, &now, 0, &init) == 0 && init.sq_sig_all == 1 && init.qp_type == UC);
  WANT(memcmp(&init.cap, &attr.cap, sizeof init.cap) == 0 && init.send_cq == cq);
  WANT(memcmp(&now.cap, &attr.cap, sizeof now.cap) == 0 && init.qp_context == &failures);
  WANT(ibv_destroy_qp(qp) == 0);
  const struct {
    struct ibv_qp_cap cap;
    int error;
  } ROWS[] = {{{1, 1, SGES + 1, 1, 0}, EINVAL},   {{1, 1, 1, SGES + 1, 0}, EINVAL},
              {{1, 1, 1, 1, INLINE + 1}, EINVAL}, {{16384, 1, 1, 1, 0}, 0},
              {{16385, 1, 1, 1, 0}, EINVAL},      {{1, 16384, 1, 1, 0}, 0},
              {{1, 16385, 1, 1, 0}, EINVAL},      {{0, 0, 0, 0, 0}, 0}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    attr = good;
    attr.cap = ROWS[i].cap;
    errno = 0;
    qp = ibv_create_qp(pd, &attr);
    if ((qp ? 0 : errno) != ROWS[i].error) printf("qp %u: %d\n", i, errno), failures++;
    if (qp) WANT(ibv_destroy_qp(qp) == 0);
  }
  static const int TYPES[] = {0, 1, 5, 6, 7, 9, 255};
  for (unsigned i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
    attr = good;
    attr.qp_type = TYPES[i];
    REFUSED(EOPNOTSUPP, ibv_create_qp(pd, &attr));
  }
  attr = good;
  attr.send_cq = NULL;
  REFUSED(EINVAL, ibv_create_qp(pd, &attr));
  attr = good;
  attr.recv_cq = NULL;
  REFUSED(EINVAL, ibv_create_qp(pd, &attr));
}

static void wide_queue_pairs(void) {
  static const struct {
    uint32_t comp_mask, create_flags;
    uint64_t operations;
    int error;
  } ROWS[] = {{1, 0, 0, 0},
              {0, 0, 0, EINVAL},
              {1 | 2, 0, 0, EOPNOTSUPP},
              {1 | 4, 2, 0, 0},
              {1 | 4, 4, 0, EOPNOTSUPP},
              {1, 4, 0, 0}, /* ignored */
              {1 | 64, 0, 0x3ff, 0},
              {1 | 64, 0, 0x400, EOPNOTSUPP},
              {1 | 64, 0, 0x1000, 0},
              {1 | 64, 0, 0x2000, EOPNOTSUPP},
              {1, 0, 0x400, 0},
              {1 | 128, 0, 0, EOPNOTSUPP},
              {1 | 16, 0, 0, EINVAL},
              {1 | 32, 0, 0, EINVAL}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    struct ibv_qp_init_attr_ex wide = {.send_cq = cq,
                                       .recv_cq = cq,
                                       .cap = {1, 1, 1, 1, 0},
                                       .qp_type = UC,
                                       .comp_mask = ROWS[i].comp_mask,
                                       .pd = pd,
                                       .create_flags = ROWS[i].create_flags,
                                       .send_ops_flags = ROWS[i].operations};
    errno = 0;
    struct ibv_qp *qp = verbs()->create_qp_ex(context, &wide);
    if ((qp ? 0 : errno) != ROWS[i].error) printf("wide qp %u: %d\n", i, errno), failures++;
    if (qp) WANT(ibv_destroy_qp(qp) == 0);
    wide.pd = NULL;
    if (ROWS[i].error == 0) REFUSED(EINVAL, verbs()->create_qp_ex(context, &wide));
  }
}

static void shared_queues(void) {
  struct ibv_srq_init_attr attr = {.srq_context = &failures, .attr = {5, SGES, 3}};
  struct ibv_srq *srq = ibv_create_srq(pd, &attr);
  WANT(srq && srq->srq_context == &failures && attr.attr.max_wr == 8);
  WANT(attr.attr.max_sge == SGES && srq->pd == pd);
  struct ibv_srq_attr now = {0};
  WANT(ibv_query_srq(srq, &now) == 0 && now.max_wr == 8 && now.max_sge == SGES);
  WANT(now.srq_limit == 3);
  now = (struct ibv_srq_attr){.srq_limit = 8};
  WANT(ibv_modify_srq(srq, &now, 0) == 0);
  WANT(ibv_modify_srq(srq, &now, 4) == EINVAL && ibv_modify_srq(srq, &now, 2 | 4) == EINVAL);
  WANT(ibv_modify_srq(srq, &now, 1) == EOPNOTSUPP && ibv_modify_srq(srq, &now, 3) == EOPNOTSUPP);
  WANT(ibv_query_srq(srq, &now) == 0 && now.srq_limit == 3);
  now.srq_limit = 8;
  WANT(ibv_modify_srq(srq, &now, 2) == 0);
  now.srq_limit = 9;
  WANT(ibv_modify_srq(srq, &now, 2) == EINVAL);
  WANT(ibv_query_srq(srq, &now) == 0 && now.srq_limit == 8);
  WANT(ibv_destroy_srq(srq) == 0);
  attr.attr = (struct ibv_srq_attr){1, SGES + 1, 0};
  REFUSED(EINVAL, ibv_create_srq(pd, &attr));
  attr.attr = (struct ibv_srq_attr){16385, 1, 0};
  REFUSED(EINVAL, ibv_create_srq(pd, &attr));
  static const struct {
    uint32_t mask;
    int type, error;
  } ROWS[] = {{2, 0, 0},  {3, 0, 0},           {3, 1, EOPNOTSUPP}, {2, 1, 0},
              {1, 0, EINVAL}, {0, 0, EINVAL}, {2 | 4, 0, EOPNOTSUPP}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    struct ibv_srq_init_attr_ex wide = {
        .attr = {1, 1, 0}, .comp_mask = ROWS[i].mask, .srq_type = ROWS[i].type, .pd = pd};
    errno = 0;
    srq = verbs()->create_srq_ex(context, &wide);
    if ((srq ? 0 : errno) != ROWS[i].error) printf("srq %u: %d\n", i, errno), failures++;
    if (srq) WANT(ibv_destroy_srq(srq) == 0);
    wide.pd = NULL;
    if (ROWS[i].error == 0) REFUSED(EINVAL, verbs()->create_srq_ex(context, &wide));
  }
}

static void domains(void) {
  struct ibv_td_init_attr no = {.comp_mask = 1}, plain = {0};
  REFUSED(EINVAL, verbs()->alloc_td(context, &no));
  struct ibv_td *td = verbs()->alloc_td(context, &plain);
  struct ibv_parent_domain_init_attr named = {.pd = pd, .td = td, .comp_mask = 3};
  struct ibv_pd *parent = verbs()->alloc_parent_domain(context, &named);
  WANT(parent && parent->handle == pd->handle && parent->context == context);
  WANT(verbs()->dealloc_td(td) == EBUSY);
  named.comp_mask = 4;
  REFUSED(EINVAL, verbs()->alloc_parent_domain(context, &named));
  named = (struct ibv_parent_domain_init_attr){.pd = parent};
  REFUSED(EINVAL, verbs()->alloc_parent_domain(context, &named));
  named.pd = NULL;
  REFUSED(EINVAL, verbs()->alloc_parent_domain(context, &named));
  WANT(ibv_dealloc_pd(pd) == EBUSY);
  WANT(ibv_dealloc_pd(parent) == 0 && verbs()->dealloc_td(td) == 0);
}

static void work_queues(void) {
  struct ibv_wq_init_attr attr = {.max_wr = 3, .max_sge = SGES, .pd = pd, .cq = cq};
  struct ibv_wq *wqs[2] = {verbs()->create_wq(context, &attr)};
  if (!wqs[0]) { /* if CAP_NET_RAW is missing */
    WANT(errno == EPERM);
    return;
  }
  WANT(attr.max_wr == 4 && attr.max_sge == SGES);
  WANT(wqs[0]->state == IBV_WQS_RESET && wqs[0]->pd == pd && wqs[0]->cq == cq);
  for (int i = 0; i < 5; i++) {
    struct ibv_wq_init_attr wrong = attr;
    if (i == 0) wrong.wq_type = 1;
    if (i == 1) wrong.comp_mask = 1;
    if (i == 2) wrong.pd = NULL;
    if (i == 3) wrong.cq = NULL;
    if (i == 4) wrong.max_sge = SGES + 1;
    REFUSED(EINVAL, verbs()->create_wq(context, &wrong));
  }
  wqs[1] = verbs()->create_wq(context, &attr);
  static const struct {
    int mask, state, current, error, after;
  } ROWS[] = {{4, 0, 0, EOPNOTSUPP, 0}, {2, 0, 1, EINVAL, 0},  {2, 0, 0, 0, 0}, {1, 3, 0, EINVAL, 0},
              {1, 1, 0, 0, 1},          {1, 1, 0, 0, 1},       {3, 2, 0, EINVAL, 1},
              {3, 2, 1, 0, 2},          {1, 1, 0, EINVAL, 2},  {1, 0, 0, 0, 0}, {1, 1, 0, 0, 1}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    struct ibv_wq_attr wanted = {.attr_mask = (uint32_t)ROWS[i].mask,
                                 .wq_state = ROWS[i].state,
                                 .curr_wq_state = ROWS[i].current};
    const int error = verbs()->modify_wq(wqs[0], &wanted);
    if (error != ROWS[i].error || wqs[0]->state != ROWS[i].after)
      printf("wq %u: %d state %d\n", i, error, wqs[0]->state), failures++;
  }
  struct ibv_rwq_ind_table_init_attr spread = {.log_ind_tbl_size = 8, .ind_tbl = wqs};
  REFUSED(EINVAL, verbs()->create_rwq_ind_table(context, &spread));
  spread = (struct ibv_rwq_ind_table_init_attr){.log_ind_tbl_size = 1, .ind_tbl = wqs, .comp_mask = 1};
  REFUSED(EINVAL, verbs()->create_rwq_ind_table(context, &spread));
  spread.comp_mask = 0;
  struct ibv_rwq_ind_table *table = verbs()->create_rwq_ind_table(context, &spread);
  WANT(verbs()->destroy_wq(wqs[0]) == EBUSY && verbs()->destroy_wq(wqs[1]) == EBUSY);
  uint8_t key[41] = {1};
  for (int i = 0; i <= 8; i++) {
    struct ibv_qp_init_attr_ex wide = {
        .qp_type = RAW, .comp_mask = 1 | 16 | 32, .pd = pd, .rwq_ind_tbl = table};
    wide.rx_hash_conf.function = IBV_RX_HASH_FUNC_TOEPLITZ;
    wide.rx_hash_conf.key_len = TESSERA_HCA_HASH_KEY_BYTES;
    wide.rx_hash_conf.key = key;
    wide.rx_hash_conf.fields_mask = TSR_RX_HASH_KNOWN;
    if (i == 0) wide.rx_hash_conf.function = 2;
    if (i == 1) wide.rx_hash_conf.key_len--;
    if (i == 2) wide.rx_hash_conf.key_len++;
    if (i == 3) wide.rx_hash_conf.fields_mask = 0x100;
    if (i == 4) wide.rwq_ind_tbl = NULL;
    if (i == 5) wide.comp_mask = 1 | 16;
    if (i == 6) wide.comp_mask = 1 | 32;
    if (i == 7) wide.qp_type = UC;
    if (i < 8) {
      REFUSED(EINVAL, verbs()->create_qp_ex(context, &wide));
      continue;
    }
    struct ibv_qp *qp = verbs()->create_qp_ex(context, &wide);
    WANT(qp && verbs()->destroy_rwq_ind_table(table) == EBUSY);
    WANT(ibv_destroy_qp(qp) == 0);
  }
  WANT(verbs()->destroy_rwq_ind_table(table) == 0);
  WANT(verbs()->destroy_wq(wqs[0]) == 0 && verbs()->destroy_wq(wqs[1]) == 0);
}

/* Register an open descriptor without memory, with any flags, and an invalid descriptor. */
static void descriptors(void) {
  int pair[2];
  WANT(pipe(pair) == 0 && fcntl(pair[1], F_SETFD, FD_CLOEXEC) == 0);
  for (int i = 0; i < 2; i++)
    REFUSED(EINVAL, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, pair[i], LOCAL_WRITE));
  REFUSED(EINVAL, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, TESSERA_VERBS_ACCESS_MW_BIND));
  close(pair[0]);
  close(pair[1]);
  REFUSED(EBADF, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, pair[0], LOCAL_WRITE));
  REFUSED(EBADF, ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, LOCAL_WRITE));
}

int main(void) {
  begin();
  const int before = count_descriptors();
  completion_queues();
  users();
  queue_pairs();
  wide_queue_pairs();
  shared_queues();
  domains();
  work_queues();
  descriptors();
  WANT(count_descriptors() == before);
  return end();
}
