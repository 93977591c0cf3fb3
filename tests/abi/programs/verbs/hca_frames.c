/* Flows: each field of each specification, compared with a frame that matches and one that does
 * not. */
#include "hca_checked.h"

enum {
  RAW = TESSERA_VERBS_QP_TYPE_RAW_PACKET,
  ROOM = 256,
  TAGS = 4, /* bytes */
  IP = 14 + TAGS,
  PORTS_4 = IP + 20,
  PORTS_6 = IP + 40,
  SPREAD = 4,
};

static uint8_t *memory;
static struct ibv_mr *mr;
static struct ibv_qp *sender, *getter;

static void set(struct ibv_qp *qp, int to) {
  for (int state = TESSERA_VERBS_STATE_INIT; state <= to; state++) {
    struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
    const int port = state == TESSERA_VERBS_STATE_INIT ? TESSERA_VERBS_MASK_PORT : 0;
    WANT(ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE | port) == 0);
  }
}

/* A tagged frame in which every field byte that a flow may match has a distinct value. */
static uint32_t make(bool is_ipv6, uint8_t protocol) {
  memset(memory, 0, ROOM);
  for (int i = 0; i < 12; i++) memory[i] = (uint8_t)(0x10 + 2 * i);
  memcpy(memory + 12, "\x81\x00\x03\x05", 4);
  uint8_t *ip = memory + IP, *ports = memory + (is_ipv6 ? PORTS_6 : PORTS_4);
  memcpy(memory + 16, is_ipv6 ? "\x86\xdd" : "\x08\x00", 2);
  if (is_ipv6) {
    memcpy(ip, "\x6a\xb0\x43\x21\x00\x08", 6);
    ip[6] = protocol;
    ip[7] = 61;
    for (int i = 8; i < 40; i++) ip[i] = (uint8_t)(0x30 + i);
  } else {
    ip[0] = 0x45;
    ip[1] = 0x2c;
    ip[3] = 28;
    ip[8] = 62;
    ip[9] = protocol;
    for (int i = 12; i < 20; i++) ip[i] = (uint8_t)(0x70 + i);
  }
  memcpy(ports, "\x04\xd2\x16\x2e\x00\x08", 6);
  return (uint32_t)(ports + 8 - memory);
}

static void send(uint32_t bytes) {
  struct ibv_sge one = {.addr = (uintptr_t)memory, .length = bytes, .lkey = mr->lkey};
  struct ibv_send_wr wr = {.wr_id = 1,
                           .sg_list = &one,
                           .num_sge = 1,
                           .opcode = TESSERA_VERBS_OPCODE_SEND,
                           .send_flags = TESSERA_VERBS_SEND_SIGNALED},
                     *bad;
  WANT(context->ops.post_send(sender, &wr, &bad) == 0);
}

/* Whether the frame has arrived at its target; it must have when the sender's request is
 * complete. */
static int arrivals(uint32_t bytes) {
  int got = 0;
  send(bytes);
  for (;;) {
    const struct ibv_wc done = next_wc();
    WANT(done.status == 0);
    if (done.opcode == TESSERA_VERBS_DONE_SEND) return got;
    got++;
    struct ibv_sge room = {.addr = (uintptr_t)memory + 1024, .length = ROOM, .lkey = mr->lkey};
    struct ibv_recv_wr again = {.wr_id = 2, .sg_list = &room, .num_sge = 1}, *bad;
    WANT(context->ops.post_recv(getter, &again, &bad) == 0);
  }
}

/* A flow of at most two specifications, each with type, size, value and mask. */
struct flow {
  struct ibv_flow_attr attr;
  uint8_t specs[2][96];
};

static size_t filter_bytes(int type) {
  if (type == IBV_FLOW_SPEC_ETH) return sizeof(struct ibv_flow_eth_filter);
  if (type == IBV_FLOW_SPEC_IPV4) return sizeof(struct ibv_flow_ipv4_filter);
  if (type == IBV_FLOW_SPEC_IPV4_EXT) return sizeof(struct ibv_flow_ipv4_ext_filter);
  if (type == IBV_FLOW_SPEC_IPV6) return sizeof(struct ibv_flow_ipv6_filter);
  return sizeof(struct ibv_flow_tcp_udp_filter);
}

static void put_spec(struct flow *flow, int type, size_t at, size_t bytes, const uint8_t *value) {
  uint8_t *spec = flow->specs[0];
  for (unsigned i = 0; i < flow->attr.num_of_specs; i++) spec += ((uint16_t *)(void *)spec)[2];
  const bool is_aligned = type == IBV_FLOW_SPEC_IPV4 || type == IBV_FLOW_SPEC_IPV4_EXT ||
                          type == IBV_FLOW_SPEC_IPV6;
  const size_t filter = filter_bytes(type), begins = is_aligned ? 8 : 6;
  const uint16_t size = (uint16_t)((begins + 2 * filter + 3) & ~3u);
  memset(spec, 0, size);
  memcpy(spec, &type, sizeof type);
  memcpy(spec + 4, &size, sizeof size);
  memcpy(spec + begins + at, value, bytes);
  memset(spec + begins + filter + at, 0xff, bytes);
  flow->attr.num_of_specs++;
}

static struct flow plain(void) {
  return (struct flow){.attr = {.port = 1, .size = sizeof(struct ibv_flow_attr)}};
}

static struct ibv_flow *create(struct flow *flow) {
  return verbs()->ibv_create_flow(getter, &flow->attr);
}

static void fields(void) {
  static const struct {
    int type;
    size_t at, bytes, in_frame;
    bool is_ipv6;
    uint8_t protocol;
  } ROWS[] = {{IBV_FLOW_SPEC_ETH, 0, 6, 0, false, 17},
              {IBV_FLOW_SPEC_ETH, 6, 6, 6, false, 17},
              {IBV_FLOW_SPEC_ETH, 12, 2, 16, false, 17},
              {IBV_FLOW_SPEC_ETH, 14, 2, 14, false, 17},
              {IBV_FLOW_SPEC_IPV4, 0, 4, IP + 12, false, 17},
              {IBV_FLOW_SPEC_IPV4, 4, 4, IP + 16, false, 17},
              {IBV_FLOW_SPEC_IPV4_EXT, 0, 4, IP + 12, false, 17},
              {IBV_FLOW_SPEC_IPV4_EXT, 4, 4, IP + 16, false, 17},
              {IBV_FLOW_SPEC_IPV4_EXT, 8, 1, IP + 9, false, 17},
              {IBV_FLOW_SPEC_IPV4_EXT, 9, 1, IP + 1, false, 17},
              {IBV_FLOW_SPEC_IPV4_EXT, 10, 1, IP + 8, false, 17},
              {IBV_FLOW_SPEC_IPV6, 0, 16, IP + 8, true, 17},
              {IBV_FLOW_SPEC_IPV6, 16, 16, IP + 24, true, 17},
              {IBV_FLOW_SPEC_IPV6, 34, 2, IP + 2, true, 17},
              {IBV_FLOW_SPEC_IPV6, 36, 1, IP + 6, true, 17},
              {IBV_FLOW_SPEC_IPV6, 38, 1, IP + 7, true, 17},
              {IBV_FLOW_SPEC_UDP, 0, 2, PORTS_4 + 2, false, 17},
              {IBV_FLOW_SPEC_UDP, 2, 2, PORTS_4, false, 17},
              {IBV_FLOW_SPEC_UDP, 2, 2, PORTS_6, true, 17},
              {IBV_FLOW_SPEC_TCP, 0, 2, PORTS_4 + 2, false, 6},
              {IBV_FLOW_SPEC_TCP, 2, 2, PORTS_6, true, 6}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
    const uint32_t bytes = make(ROWS[i].is_ipv6, ROWS[i].protocol);
    for (size_t wrong = 0; wrong <= ROWS[i].bytes; wrong++) { /* 0: none; else its number */
      uint8_t value[16];
      memcpy(value, memory + ROWS[i].in_frame, ROWS[i].bytes);
      if (wrong) value[wrong - 1] ^= 0x80;
      struct flow flow = plain();
      put_spec(&flow, ROWS[i].type, ROWS[i].at, ROWS[i].bytes, value);
      struct ibv_flow *made = create(&flow);
      if (!made) printf("row %u: %d\n", i, errno), failures++;
      if (!made) continue;
      const int got = arrivals(bytes);
      if (got != !wrong) printf("row %u wrong %zu: %d arrived\n", i, wrong, got), failures++;
      WANT(made->context == context && verbs()->ibv_destroy_flow(made) == 0);
    }
  }
  /* IPv6's traffic class, which spans two bytes; and what a specification implies on its own. */
  const uint8_t class = 0xab, zero[16] = {0};
  for (int is_ipv6 = 0; is_ipv6 < 2; is_ipv6++)
    for (int protocol = 6; protocol <= 17; protocol += 11) {
      const uint32_t bytes = make(is_ipv6, (uint8_t)protocol);
      static const int TYPES[] = {IBV_FLOW_SPEC_IPV4, IBV_FLOW_SPEC_IPV4_EXT, IBV_FLOW_SPEC_IPV6,
                                  IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP};
      const int expected[] = {!is_ipv6, !is_ipv6, is_ipv6, protocol == 6, protocol == 17};
      for (int i = 0; i < 5; i++) {
        struct flow flow = plain();
        put_spec(&flow, TYPES[i], i == 2 ? 37 : 0, i == 2, i == 2 ? &class : zero);
        struct ibv_flow *made = create(&flow);
        WANT(made && arrivals(bytes) == expected[i]);
        WANT(verbs()->ibv_destroy_flow(made) == 0);
        WANT(arrivals(bytes) == 0);
      }
    }
}

static void refusals(void) {
  const uint8_t zero[16] = {0}, flags = 1;
  for (int i = 0; i <= 9; i++) {
    struct flow flow = plain();
    int why = EINVAL;
    if (i == 0) flow.attr.comp_mask = 1;
    if (i == 1) flow.attr.port = 0;
    if (i == 2) flow.attr.port = 2;
    if (i == 3) flow.attr.flags = 1, why = EOPNOTSUPP;
    if (i == 4) flow.attr.type = -1, why = EOPNOTSUPP;
    if (i == 5) flow.attr.type = IBV_FLOW_ATTR_MC_DEFAULT + 1, why = EOPNOTSUPP;
    if (i == 6) put_spec(&flow, 0x50, 0, 1, zero), why = EOPNOTSUPP;
    if (i == 7) put_spec(&flow, IBV_FLOW_SPEC_IPV4_EXT, 11, 1, &flags);
    if (i == 8) put_spec(&flow, IBV_FLOW_SPEC_ETH, 0, 1, zero), flow.attr.type = 1;
    if (i == 9) put_spec(&flow, IBV_FLOW_SPEC_ETH, 0, 1, zero), flow.attr.type = 2;
    REFUSED(why, create(&flow));
  }
  /* Two specifications: for one layer, or contradictory. */
  static const struct {
    int one, two, ok;
    size_t at, bytes;
    uint8_t value[2];
  } PAIRS[] = {{IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_ETH, 0, 0, 1, {0}},
               {IBV_FLOW_SPEC_IPV4, IBV_FLOW_SPEC_IPV4_EXT, 0, 0, 1, {0}},
               {IBV_FLOW_SPEC_IPV4, IBV_FLOW_SPEC_IPV6, 0, 0, 1, {0}},
               {IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP, 0, 0, 1, {0}},
               {IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4, 1, 12, 2, {8, 0}},
               {IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4, 0, 12, 2, {8, 6}},
               {IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV4_EXT, 0, 12, 2, {9, 0}},
               {IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV6, 1, 12, 2, {0x86, 0xdd}},
               {IBV_FLOW_SPEC_ETH, IBV_FLOW_SPEC_IPV6, 0, 12, 2, {0x86, 0xdc}},
               {IBV_FLOW_SPEC_IPV4_EXT, IBV_FLOW_SPEC_UDP, 1, 8, 1, {17}},
               {IBV_FLOW_SPEC_IPV4_EXT, IBV_FLOW_SPEC_UDP, 0, 8, 1, {6}},
               {IBV_FLOW_SPEC_IPV4_EXT, IBV_FLOW_SPEC_TCP, 1, 8, 1, {6}}};
  for (unsigned i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
    struct flow flow = plain();
    put_spec(&flow, PAIRS[i].one, PAIRS[i].at, PAIRS[i].bytes, PAIRS[i].value);
    put_spec(&flow, PAIRS[i].two, 0, 0, zero);
    errno = 0;
    struct ibv_flow *made = create(&flow);
    if ((made ? 0 : errno) != (PAIRS[i].ok ? 0 : EINVAL)) printf("pair %u: %d\n", i, errno), failures++;
    if (made) WANT(verbs()->ibv_destroy_flow(made) == 0);
  }
  struct flow flow = plain();
  struct ibv_qp *other = make_qp(TESSERA_VERBS_QP_TYPE_UD, NULL);
  REFUSED(EINVAL, verbs()->ibv_create_flow(other, &flow.attr));
  WANT(ibv_destroy_qp(other) == 0);
}

/* Flows for all frames and for multicast frames; and two rules of different priority. */
static void defaults(void) {
  const uint32_t bytes = make(false, 17);
  for (int is_group = 0; is_group < 2; is_group++)
    for (int type = 0; type <= IBV_FLOW_ATTR_MC_DEFAULT; type++) {
      struct flow flow = plain();
      flow.attr.type = type;
      struct ibv_flow *made = create(&flow);
      memory[0] = (uint8_t)(0x10 | is_group);
      WANT(made && arrivals(bytes) == (type == IBV_FLOW_ATTR_MC_DEFAULT ? is_group : 1));
      WANT(verbs()->ibv_destroy_flow(made) == 0);
    }
  memory[0] = 0x10;
  struct ibv_qp *other = make_qp(RAW, NULL); /* posts no receives, so its frames are lost */
  set(other, TESSERA_VERBS_STATE_RTR);
  for (int i = 0; i < 3; i++) {
    struct flow mine = plain(), its = plain();
    mine.attr.priority = i == 2 ? 0xffff : 1;
    its.attr.priority = i == 0 ? 0 : 2;
    if (i == 2) its.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
    struct ibv_flow *second = verbs()->ibv_create_flow(other, &its.attr), *first = create(&mine);
    WANT(arrivals(bytes) == (i != 0));
    WANT(!verbs()->ibv_destroy_flow(first) && !verbs()->ibv_destroy_flow(second));
  }
  WANT(ibv_destroy_qp(other) == 0);
}

/* Microsoft's verification suite for the Toeplitz hash: source and destination, with ports. */
static void spreads(void) {
  static const uint8_t KEY[] =
      "\x6d\x5a\x56\xda\x25\x5b\x0e\xc2\x41\x67\x25\x3d\x43\xa3\x8f\xb0\xd0\xca\x2b\xcb\xae\x7b\x30"
      "\xb4\x77\xcb\x2d\xa3\x80\x30\xf2\x0c\x6a\x42\xb7\x3b\xbe\xac\x01\xfa";
  static const struct {
    uint8_t source[4], destination[4];
    uint16_t from, to;
    uint32_t with_ports, without;
  } ROWS[] = {{{66, 9, 149, 187}, {161, 142, 100, 80}, 2794, 1766, 0x51ccc178, 0x323e8fc2},
              {{199, 92, 111, 2}, {65, 69, 140, 83}, 14230, 4739, 0xc626b0ea, 0xd718262a},
              {{24, 19, 198, 95}, {12, 22, 207, 184}, 12898, 38024, 0x5c2b394a, 0xd2d0a5de},
              {{38, 27, 205, 30}, {209, 142, 163, 6}, 48228, 2217, 0xafc7327f, 0x82989176},
              {{153, 39, 163, 191}, {202, 188, 127, 2}, 44251, 1303, 0x10e828a2, 0x5d1809c5}};
  struct ibv_wq *wqs[SPREAD];
  struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};
  for (int i = 0; i < SPREAD; i++) {
    struct ibv_wq_init_attr attr = {.max_wr = 16, .max_sge = 1, .pd = pd, .cq = cq};
    wqs[i] = verbs()->create_wq(context, &attr);
    WANT(verbs()->modify_wq(wqs[i], &ready) == 0);
    struct ibv_sge room = {.addr = (uintptr_t)memory + 1024, .length = ROOM, .lkey = mr->lkey};
    for (unsigned n = 0; n < 10; n++) {
      struct ibv_recv_wr one = {.wr_id = 100 + (unsigned)i, .sg_list = &room, .num_sge = 1}, *bad;
      WANT(wqs[i]->post_recv(wqs[i], &one, &bad) == 0);
    }
  }
  struct ibv_rwq_ind_table_init_attr spread = {.log_ind_tbl_size = 2, .ind_tbl = wqs};
  struct ibv_rwq_ind_table *table = verbs()->create_rwq_ind_table(context, &spread);
  uint8_t key[sizeof KEY];
  memcpy(key, KEY, sizeof key);
  for (int ports = 0; ports < 2; ports++) {
    struct ibv_qp_init_attr_ex wide = {
        .qp_type = RAW, .comp_mask = 1 | 16 | 32, .pd = pd, .rwq_ind_tbl = table};
    wide.rx_hash_conf.function = IBV_RX_HASH_FUNC_TOEPLITZ;
    wide.rx_hash_conf.key_len = TESSERA_HCA_HASH_KEY_BYTES;
    wide.rx_hash_conf.key = key;
    wide.rx_hash_conf.fields_mask = ports ? 1 | 2 | 16 | 32 : 1 | 2;
    struct ibv_qp *qp = verbs()->create_qp_ex(context, &wide);
    struct flow flow = plain();
    struct ibv_flow *made = verbs()->ibv_create_flow(qp, &flow.attr);
    for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
      const uint32_t bytes = make(false, 6);
      memcpy(memory + IP + 12, ROWS[i].source, 4);
      memcpy(memory + IP + 16, ROWS[i].destination, 4);
      const uint8_t both[4] = {(uint8_t)(ROWS[i].from >> 8), (uint8_t)ROWS[i].from,
                               (uint8_t)(ROWS[i].to >> 8), (uint8_t)ROWS[i].to};
      memcpy(memory + PORTS_4, both, 4);
      send(bytes);
      const uint32_t hash = ports ? ROWS[i].with_ports : ROWS[i].without;
      const struct ibv_wc done = next_wc();
      if (done.wr_id != 100 + hash % SPREAD)
        printf("hash %u: %d\n", i, (int)done.wr_id), failures++;
      WANT(next_wc().wr_id == 1);
    }
    WANT(verbs()->ibv_destroy_flow(made) == 0 && ibv_destroy_qp(qp) == 0);
  }
  WANT(verbs()->destroy_rwq_ind_table(table) == 0);
  for (int i = 0; i < SPREAD; i++) WANT(verbs()->destroy_wq(wqs[i]) == 0);
}

int main(void) {
  begin();
  memory = calloc(1, 4096);
  mr = ibv_reg_mr(pd, memory, 4096, LOCAL_WRITE);
  sender = make_qp(RAW, NULL);
  if (!sender) {
    WANT(errno == EPERM); /* without CAP_NET_RAW */
    return failures ? 1 : 77;
  }
  getter = make_qp(RAW, NULL);
  set(sender, TESSERA_VERBS_STATE_RTS);
  set(getter, TESSERA_VERBS_STATE_RTR);
  struct ibv_sge room = {.addr = (uintptr_t)memory + 1024, .length = ROOM, .lkey = mr->lkey};
  struct ibv_recv_wr one = {.wr_id = 2, .sg_list = &room, .num_sge = 1}, *bad;
  WANT(context->ops.post_recv(getter, &one, &bad) == 0);
  fields();
  refusals();
  defaults();
  spreads();
  WANT(ibv_destroy_qp(sender) == 0 && ibv_destroy_qp(getter) == 0 && ibv_dereg_mr(mr) == 0);
  return end();
}
