/* Prints what each way of posting a request writes into a queue pair's ring, one line per
   request. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "memory/implicit.h"
#include "posting/post.h"
#include "unsupported.h"
#include "verbs_calls.h"

enum { DEPTH = 4, TAIL = 6, ODP_KEY = 0x0DD, GONE_KEY = 0xDEAD };

static tessera_hca_qp_page page;
static tessera_hca_send_slot sends[DEPTH];
static tessera_hca_recv_slot receives[DEPTH];
static struct tsr_context context;
static struct tsr_qp qp;
static unsigned rings;
static uint8_t data[2][8] = {"12345678", "abcdefgh"};
static struct ibv_sge list[2] = {{0x1111222233334444, 0x55, 0x66}, {0x7777, 0x88, ODP_KEY}};
static struct ibv_sge longest[TESSERA_HCA_MAX_SGE + 1];
static struct ibv_sge inlined[2] = {{0, 8, 1}, {0, 3, 2}};
static uint8_t most[TESSERA_HCA_MAX_INLINE_BYTES];
static struct ibv_ah ah = {.handle = 0xA1};
static struct ibv_mr mr = {.lkey = 0xB1};
static struct ibv_mw window = {.rkey = 0xC1, .type = TESSERA_VERBS_MW_TYPE_TYPE_2};
static const struct ibv_mw_bind_info info = {&mr, 0xD1D1D1D1D1, 0xE1E1E1E1E1, 0x13};

void tsr_ring(struct tsr_context *of, uint32_t index) { rings += of == &context && index == 3; }
void tsr_unsupported(const char *what, const char *status, uint32_t *said) {
  (void)what, (void)status, (void)said;
}
int tsr_implicit_reach(struct tsr_context *of, uint64_t address, uint32_t bytes, uint32_t *key) {
  if (*key == GONE_KEY) return EFAULT;
  if (*key == ODP_KEY) *key = (uint32_t)(address + bytes) + (of == &context);
  return 0;
}

static void begin(int type) {
  memset(sends, 0xA5, sizeof sends);
  memset(receives, 0xA5, sizeof receives);
  memset(&page, 0, sizeof page);
  page.send_tail = page.recv_tail = TAIL;
  qp = (struct tsr_qp){.page = &page, .send_slots = sends, .recv_slots = receives, .index = 3};
  qp.send_count = qp.recv_count = DEPTH;
  qp.send_head = qp.recv_head = page.send_head = page.recv_head = TAIL + 1;
  qp.ibv.context = &context.verbs.context;
  qp.ibv.qp_type = type;
  qp.ibv.state = TESSERA_VERBS_STATE_RTS;
  rings = 0;
  tsr_set_builder(&qp.ex);
}

static void show(const char *way, const char *name, int error, const void *slot, size_t bytes,
                 uint32_t head) {
  printf("%s|%s|%d|%u|%u|", way, name, error, head - TAIL - 1, rings);
  for (size_t i = 0; i < bytes; i++) printf("%02x", ((const uint8_t *)slot)[i]);
  printf("\n");
}

static void show_send(const char *way, const char *name, int error) {
  show(way, name, error, &sends[(TAIL + 1) % DEPTH], sizeof *sends, page.send_head);
}

static void posted(const char *name, int type, struct ibv_send_wr wr) {
  struct ibv_send_wr *bad = NULL;
  begin(type);
  wr.wr_id = 0x123456789AB;
  show_send("posted", name, tsr_post_send(&qp.ibv, &wr, &bad));
}

#define BUILT(name, type, flags, calls)                    \
  do {                                                     \
    struct ibv_qp_ex *ex = &qp.ex;                         \
    begin(type);                                           \
    ex->wr_start(ex);                                      \
    ex->wr_id = 0x123456789AB;                             \
    ex->wr_flags = (flags);                                \
    calls;                                                 \
    show_send("built", name, ex->wr_complete(ex));         \
  } while (0)

static void by_post(void) {
  const int rc = TESSERA_VERBS_QP_TYPE_RC, ud = TESSERA_VERBS_QP_TYPE_UD;
  struct ibv_send_wr wr = {.sg_list = list, .num_sge = 2, .send_flags = 6, .imm_data = 0x91};
  posted("send", rc, ((struct ibv_send_wr){.sg_list = list, .num_sge = 2, .send_flags = 6,
                                            .opcode = TESSERA_VERBS_OPCODE_SEND}));
  wr.opcode = TESSERA_VERBS_OPCODE_SEND_WITH_IMM;
  posted("send with immediate", rc, wr);
  wr.opcode = TESSERA_VERBS_OPCODE_SEND_WITH_INV;
  posted("send with invalidate", rc, wr);
  wr.opcode = TESSERA_VERBS_OPCODE_LOCAL_INV;
  posted("invalidate", rc, wr);
  wr.wr.ud.ah = &ah, wr.wr.ud.remote_qpn = 0xF1, wr.wr.ud.remote_qkey = 0xF2;
  wr.opcode = TESSERA_VERBS_OPCODE_SEND_WITH_IMM;
  posted("datagram", ud, wr);
  wr.wr.ud.ah = NULL;
  posted("datagram without address", ud, wr);
  wr.wr.rdma.remote_addr = 0x1010101010, wr.wr.rdma.rkey = 0x2020;
  wr.opcode = TESSERA_VERBS_OPCODE_RDMA_WRITE_WITH_IMM;
  posted("write with immediate", rc, wr);
  wr.imm_data = 0;
  wr.opcode = TESSERA_VERBS_OPCODE_RDMA_WRITE;
  posted("write", rc, wr);
  wr.opcode = TESSERA_VERBS_OPCODE_RDMA_READ;
  posted("read", rc, wr);
  wr.wr.atomic.remote_addr = 0x1010101010, wr.wr.atomic.rkey = 0x2020;
  wr.wr.atomic.compare_add = 0x3030303030, wr.wr.atomic.swap = 0x4040404040;
  wr.opcode = TESSERA_VERBS_OPCODE_ATOMIC_CMP_AND_SWP;
  posted("swap", rc, wr);
  wr.wr.atomic.swap = 0;
  wr.opcode = TESSERA_VERBS_OPCODE_ATOMIC_FETCH_AND_ADD;
  posted("add", rc, wr);
  wr.bind_mw.mw = &window, wr.bind_mw.rkey = 0x5050, wr.bind_mw.bind_info = info;
  wr.opcode = TESSERA_VERBS_OPCODE_BIND_MW;
  posted("bind", rc, wr);
  wr.bind_mw.bind_info.mr = NULL;
  posted("bind nothing", rc, wr);
  inlined[0].addr = (uintptr_t)data[0], inlined[1].addr = (uintptr_t)data[1];
  posted("inline", rc, ((struct ibv_send_wr){.sg_list = inlined, .num_sge = 2,
                                              .send_flags = 6 | TESSERA_VERBS_SEND_INLINE,
                                              .opcode = TESSERA_VERBS_OPCODE_SEND}));
  struct ibv_sge whole[2] = {{(uintptr_t)most, sizeof most, 0}, {(uintptr_t)most, 1, 0}};
  wr = (struct ibv_send_wr){.sg_list = whole, .num_sge = 1, .send_flags = 6,
                            .opcode = TESSERA_VERBS_OPCODE_SEND};
  wr.send_flags |= TESSERA_VERBS_SEND_INLINE;
  posted("all that goes inline", rc, wr);
  wr.num_sge = 2;
  posted("a byte more inline", rc, wr);
  wr.send_flags = 6;
  wr.sg_list = longest;
  wr.num_sge = TESSERA_HCA_MAX_SGE;
  posted("the longest list", rc, wr);
  wr.num_sge = TESSERA_HCA_MAX_SGE + 1;
  posted("an element too many", rc, wr);
  wr.num_sge = -1;
  posted("less than none", rc, wr);
  wr.num_sge = 2;
  struct ibv_sge gone[2] = {list[0], {0x9999, 1, GONE_KEY}};
  wr.sg_list = gone;
  posted("a region that has gone", rc, wr);
}

static void by_builder(void) {
  const int rc = TESSERA_VERBS_QP_TYPE_RC, ud = TESSERA_VERBS_QP_TYPE_UD;
  const uint64_t at = 0x1010101010, value = 0x3030303030;
  const struct ibv_mw_bind_info nothing = {NULL, info.addr, info.length, info.mw_access_flags};
  const struct ibv_data_buf buffers[2] = {{data[0], 8}, {data[1], 3}};
  struct ibv_sge gone[2] = {list[0], {0x9999, 1, GONE_KEY}};
  BUILT("send", rc, 6, (ex->wr_send(ex), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("send with immediate", rc, 6,
        (ex->wr_send_imm(ex, 0x91), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("send with invalidate", rc, 6,
        (ex->wr_send_inv(ex, 0x91), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("invalidate", rc, 6, ex->wr_local_inv(ex, 0x91));
  BUILT("datagram", ud, 6, (ex->wr_send_imm(ex, 0x91), ex->wr_set_ud_addr(ex, &ah, 0xF1, 0xF2),
                            ex->wr_set_sge_list(ex, 2, list)));
  BUILT("write with immediate", rc, 6,
        (ex->wr_rdma_write_imm(ex, 0x2020, at, 0x91), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("write", rc, 6, (ex->wr_rdma_write(ex, 0x2020, at), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("read", rc, 6, (ex->wr_rdma_read(ex, 0x2020, at), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("swap", rc, 6, (ex->wr_atomic_cmp_swp(ex, 0x2020, at, value, 0x4040404040),
                        ex->wr_set_sge_list(ex, 2, list)));
  BUILT("add", rc, 6,
        (ex->wr_atomic_fetch_add(ex, 0x2020, at, value), ex->wr_set_sge_list(ex, 2, list)));
  BUILT("atomic write", rc, 6, ex->wr_atomic_write(ex, 0x2020, at, &value));
  BUILT("bind", rc, 6, ex->wr_bind_mw(ex, &window, 0x5050, &info));
  BUILT("bind nothing", rc, 6, ex->wr_bind_mw(ex, &window, 0x5050, &nothing));
  BUILT("inline", rc, 6, (ex->wr_send(ex), ex->wr_set_inline_data_list(ex, 2, buffers)));
  const struct ibv_data_buf whole[2] = {{most, sizeof most}, {most, 1}};
  BUILT("all that goes inline", rc, 6,
        (ex->wr_send(ex), ex->wr_set_inline_data_list(ex, 1, whole)));
  BUILT("a byte more inline", rc, 6, (ex->wr_send(ex), ex->wr_set_inline_data_list(ex, 2, whole)));
  BUILT("the longest list", rc, 6,
        (ex->wr_send(ex), ex->wr_set_sge_list(ex, TESSERA_HCA_MAX_SGE, longest)));
  BUILT("an element too many", rc, 6,
        (ex->wr_send(ex), ex->wr_set_sge_list(ex, TESSERA_HCA_MAX_SGE + 1, longest)));
  BUILT("one", rc, 6 | TESSERA_VERBS_SEND_INLINE,
        (ex->wr_send(ex), ex->wr_set_sge(ex, ODP_KEY, 0x7777, 0x88)));
  BUILT("one inline", rc, 6, (ex->wr_send(ex), ex->wr_set_inline_data(ex, data[1], 5)));
  BUILT("a region that has gone", rc, 6, (ex->wr_send(ex), ex->wr_set_sge_list(ex, 2, gone)));
  BUILT("nothing", rc, 6, (void)0);
  BUILT("a list of nothing", rc, 6, ex->wr_set_sge(ex, 1, 2, 3));
  BUILT("frames in parts", rc, 6, ex->wr_send_tso(ex, data, 4, 4));
  BUILT("another's queue", rc, 6, ex->wr_set_xrc_srqn(ex, 1));
  BUILT("what comes after a mistake", rc, 6,
        (ex->wr_set_xrc_srqn(ex, 1), ex->wr_send(ex), ex->wr_set_sge(ex, 1, 2, 3)));
  window.type = TESSERA_VERBS_MW_TYPE_TYPE_1;
  BUILT("bind the other kind", rc, 6, ex->wr_bind_mw(ex, &window, 0x5050, &info));
}

static void receive(const char *name, int count, struct ibv_sge *of, uint32_t used, int state,
                    struct ibv_srq *srq) {
  struct ibv_recv_wr wr = {0x123456789AB, NULL, of, count}, *bad = NULL;
  begin(TESSERA_VERBS_QP_TYPE_RC);
  qp.ibv.state = state;
  qp.ibv.srq = srq;
  page.recv_tail = TAIL + 1 - used;
  const int error = tsr_post_recv(&qp.ibv, &wr, &bad);
  if ((bad == &wr) != (error != 0)) printf("%s: wrong request\n", name);
  show("received", name, error, &receives[(TAIL + 1) % DEPTH], sizeof *receives, page.recv_head);
}

int main(void) {
  struct ibv_srq srq = {.handle = 1};
  struct ibv_sge gone = {0x9999, 1, GONE_KEY};
  memset(most, 'z', sizeof most);
  by_post();
  by_builder();
  receive("a list", 2, list, 0, TESSERA_VERBS_STATE_INIT, NULL);
  receive("the last place", 2, list, DEPTH - 1, TESSERA_VERBS_STATE_RTS, NULL);
  receive("no place", 2, list, DEPTH, TESSERA_VERBS_STATE_RTS, NULL);
  receive("a reset queue pair", 2, list, 0, TESSERA_VERBS_STATE_RESET, NULL);
  receive("a shared queue", 2, list, 0, TESSERA_VERBS_STATE_RTS, &srq);
  receive("the longest list", TESSERA_HCA_MAX_SGE, longest, 0, TESSERA_VERBS_STATE_RTS, NULL);
  receive("an element too many", TESSERA_HCA_MAX_SGE + 1, longest, 0, TESSERA_VERBS_STATE_RTS, NULL);
  receive("less than none", -1, list, 0, TESSERA_VERBS_STATE_RTS, NULL);
  receive("a region that has gone", 1, &gone, 0, TESSERA_VERBS_STATE_RTS, NULL);
  return 0;
}
