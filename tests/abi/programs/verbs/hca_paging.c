/* Regions with on-demand paging, in a program that replaces their pages. Compiled with the
 * distribution's header; prints one line per case. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, BYTES = 2 * PAGE, WORD = 16 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *plain;
static char *words;

static void need(int works, const char *what) {
  if (works) return;
  printf("%s failed: %s\n", what, strerror(errno));
  exit(1);
}

static char *map(char *at) {
  const int fixed = at ? MAP_FIXED : 0;
  return mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

static void connect_to_itself(void) {
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL | IBV_ACCESS_ON_DEMAND};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                    IBV_QP_ACCESS_FLAGS) == 0, "init");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = qp->qp_num,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1, .port_num = 1}};
  attr.ah_attr.grh.sgid_index = 1;
  ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid);
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER) == 0, "rtr");
  attr = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .max_rd_atomic = 1};
  need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                    IBV_QP_MAX_QP_RD_ATOMIC) == 0, "rts");
}

/* Return the errno value of the post, or the status plus 1000. */
static int post(enum ibv_wr_opcode opcode, uint32_t lkey, char *at, uint32_t rkey, char *remote) {
  struct ibv_sge sge = {(uintptr_t)at, WORD, lkey};
  struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = opcode,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {(uintptr_t)remote, rkey}};
  struct ibv_wc done;
  const int error = ibv_post_send(qp, &wr, &bad);
  if (error != 0) return error;
  while (ibv_poll_cq(cq, 1, &done) == 0) continue;
  return 1000 + (int)done.status;
}

static const char *move(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, char *at) {
  const int done = post(opcode, plain->lkey, words, mr->rkey, at);
  need(done >= 1000, "post");
  return done == 1000 ? words : ibv_wc_status_str((enum ibv_wc_status)(done - 1000));
}

static int advise(struct ibv_pd *whose, int advice, uint32_t lkey, char *at, uint32_t bytes) {
  struct ibv_sge range = {(uintptr_t)at, bytes, lkey};
  return ibv_advise_mr(whose, (enum ibv_advise_mr_advice)advice, IBV_ADVISE_MR_FLAG_FLUSH, &range,
                       1);
}

#define PREFETCH IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define PREFETCH_NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static void follows(void) {
  char *own = map(NULL);
  strcpy(own + PAGE, "first");
  struct ibv_mr *mr = ibv_reg_mr(pd, own, BYTES, ALL | IBV_ACCESS_ON_DEMAND);
  need(mr != NULL, "on demand");
  printf("read %s\n", move(IBV_WR_RDMA_READ, mr, own + PAGE));
  map(own);
  strcpy(own + PAGE, "second");
  printf("mapped %s", move(IBV_WR_RDMA_READ, mr, own + PAGE));
  printf(" no fault %d", advise(pd, PREFETCH_NO_FAULT, mr->lkey, own, BYTES));
  printf(" %s", move(IBV_WR_RDMA_READ, mr, own + PAGE));
  const uint32_t key = mr->rkey;
  printf(" advised %d", advise(pd, PREFETCH, mr->lkey, own + PAGE, WORD));
  printf(" %s key %s\n", move(IBV_WR_RDMA_READ, mr, own + PAGE), key == mr->rkey ? "same" : "new");
  strcpy(words, "third");
  move(IBV_WR_RDMA_WRITE, mr, own);
  printf("written %s\n", own);
  munmap(own, BYTES);
  printf("hole %d\n", advise(pd, PREFETCH_WRITE, mr->lkey, own, BYTES));
  printf("dereg %d\n", ibv_dereg_mr(mr));
}

static void refuses(void) {
  char *own = map(NULL);
  struct ibv_mr *mr = ibv_reg_mr(pd, own, BYTES, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
  struct ibv_pd *other = ibv_alloc_pd(context);
  struct ibv_sge range = {(uintptr_t)own, WORD, mr->lkey};
  printf("read only %d", advise(pd, PREFETCH_WRITE, mr->lkey, own, WORD));
  printf(" domain %d", advise(other, PREFETCH, mr->lkey, own, WORD));
  printf(" range %d", advise(pd, PREFETCH, mr->lkey, own + 1, BYTES));
  printf(" before %d", advise(pd, PREFETCH, mr->lkey, own - 1, 1));
  printf(" pinned %d", advise(pd, PREFETCH, plain->lkey, words, WORD));
  printf(" advice %d", advise(pd, 3, mr->lkey, own, WORD));
  printf(" flags %d", ibv_advise_mr(pd, PREFETCH, 2, &range, 1));
  printf(" none %d\n", ibv_advise_mr(pd, PREFETCH, 0, &range, 0));
  const uint32_t key = mr->lkey;
  printf("dereg %d", ibv_dereg_mr(mr));
  printf(" gone %d\n", advise(pd, PREFETCH, key, own, WORD));
  printf("implicit %d", ibv_reg_mr(pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND) ? 0 : errno);
  printf(" huge %d\n", ibv_reg_mr(pd, own, WORD, IBV_ACCESS_HUGETLB) ? 0 : errno);
}

/* Send the program's memory to `words` using one key, and read it from there. */
static void reaches_everything(void) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;
  struct ibv_mr *all = ibv_reg_mr(pd, NULL, SIZE_MAX, access), *read_only;
  need(all != NULL, "implicit");
  char *own = map(NULL), *other = map(NULL);
  strcpy(own + PAGE - 4, "across");
  int done = post(IBV_WR_RDMA_WRITE, all->lkey, own + PAGE - 4, plain->rkey, words);
  printf("implicit %d %s", done, words);
  map(own);
  strcpy(own + PAGE - 4, "mapped");
  done = post(IBV_WR_RDMA_WRITE, all->lkey, own + PAGE - 4, plain->rkey, words);
  printf(" %d %s", done, words);
  munmap(own + PAGE, PAGE);
  strcpy(own, "half");
  done = post(IBV_WR_RDMA_WRITE, all->lkey, own, plain->rkey, words);
  printf(" %d %s", done, words);
  done = post(IBV_WR_RDMA_READ, all->lkey, other, plain->rkey, words);
  printf(" read %d %s", done, other);
  printf(" hole %d", post(IBV_WR_RDMA_WRITE, all->lkey, own + PAGE, plain->rkey, words));
  printf(" advised %d", advise(pd, PREFETCH_WRITE, all->lkey, other + PAGE, WORD));
  printf(" hole %d\n", advise(pd, PREFETCH, all->lkey, own + PAGE, WORD));
  struct ibv_pd *stranger = ibv_alloc_pd(context);
  printf("domain %d", advise(stranger, PREFETCH, all->lkey, other, WORD));
  done = ibv_rereg_mr(all, IBV_REREG_MR_CHANGE_PD, stranger, NULL, 0, 0);
  printf(" rereg %d %d", done, errno);
  read_only = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
  printf(" may not %d", advise(pd, PREFETCH_WRITE, read_only->lkey, other, WORD));
  strcpy(other, "kept");
  const uint32_t key = all->lkey;
  printf(" dereg %d", ibv_dereg_mr(all));
  printf(" %d %s", ibv_dereg_mr(read_only), other);
  printf(" gone %d\n", post(IBV_WR_RDMA_WRITE, key, other, plain->rkey, words) -
                           (1000 + IBV_WC_LOC_PROT_ERR));
}

int main(void) {
  context = ibv_open_device(ibv_get_device_list(NULL)[0]);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
  qp = ibv_create_qp(pd, &wanted);
  words = map(NULL);
  plain = ibv_reg_mr(pd, words, BYTES, ALL);
  need(qp && plain, "resources");
  connect_to_itself();
  struct ibv_device_attr_ex device;
  need(ibv_query_device_ex(context, NULL, &device) == 0, "query");
  printf("offered %d implicit %d rc %#x\n",
         !!(device.odp_caps.general_caps & IBV_ODP_SUPPORT),
         !!(device.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT),
         device.odp_caps.per_transport_caps.rc_odp_caps);
  follows();
  refuses();
  reaches_everything();
  return 0;
}
