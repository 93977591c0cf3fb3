/* A device's attributes, and how the source of a datagram is found. */
#include <arpa/inet.h>

#include "hca_checked.h"

enum { BEFORE = 0x5A };

/* Each number is the limit that another program finds by creating objects. */
static void device(void) {
  struct ibv_device_attr attr;
  memset(&attr, BEFORE, sizeof attr);
  WANT(ibv_query_device(context, &attr) == 0);
  const struct {
    const char *name;
    uint64_t is, expected;
  } ROWS[] = {{"max_mr_size", attr.max_mr_size, UINT64_C(1) << 40},
              {"page_size_cap", attr.page_size_cap, 4096},
              {"vendor_part_id", attr.vendor_part_id, 1},
              {"hw_ver", attr.hw_ver, 0},
              {"max_qp", (unsigned)attr.max_qp, 1024},
              {"max_qp_wr", (unsigned)attr.max_qp_wr, 16384},
              {"device_cap_flags", attr.device_cap_flags, 1u << 12 | 1u << 17 | 1u << 24},
              {"max_sge", (unsigned)attr.max_sge, 16},
              {"max_sge_rd", (unsigned)attr.max_sge_rd, 16},
              {"max_cq", (unsigned)attr.max_cq, 2048},
              {"max_cqe", (unsigned)attr.max_cqe, 65536},
              {"max_mr", (unsigned)attr.max_mr, 4096},
              {"max_pd", (unsigned)attr.max_pd, 1024},
              {"max_qp_rd_atom", (unsigned)attr.max_qp_rd_atom, 16},
              {"max_ee_rd_atom", (unsigned)attr.max_ee_rd_atom, 0},
              {"max_res_rd_atom", (unsigned)attr.max_res_rd_atom, 16 * 1024},
              {"max_qp_init_rd_atom", (unsigned)attr.max_qp_init_rd_atom, 16},
              {"atomic_cap", (unsigned)attr.atomic_cap, IBV_ATOMIC_GLOB},
              {"max_mw", (unsigned)attr.max_mw, 4096},
              {"max_raw_ipv6_qp", (unsigned)attr.max_raw_ipv6_qp, 0},
              {"max_raw_ethy_qp", (unsigned)attr.max_raw_ethy_qp, 1024},
              {"max_mcast_grp", (unsigned)attr.max_mcast_grp, 64},
              {"max_mcast_qp_attach", (unsigned)attr.max_mcast_qp_attach, 64},
              {"max_total", (unsigned)attr.max_total_mcast_qp_attach, 64},
              {"max_ah", (unsigned)attr.max_ah, 16384},
              {"max_srq", (unsigned)attr.max_srq, 256},
              {"max_srq_wr", (unsigned)attr.max_srq_wr, 16384},
              {"max_srq_sge", (unsigned)attr.max_srq_sge, 16},
              {"max_pkeys", attr.max_pkeys, 16},
              {"local_ca_ack_delay", attr.local_ca_ack_delay, 0},
              {"phys_port_cnt", attr.phys_port_cnt, 1}};
  for (unsigned i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
    if (ROWS[i].is != ROWS[i].expected)
      printf("%s %llu\n", ROWS[i].name, (unsigned long long)ROWS[i].is), failures++;
  WANT(attr.sys_image_guid == attr.node_guid && attr.fw_ver[0]);
  WANT(attr.vendor_id == ntohl((uint32_t)attr.node_guid) >> 8);
}

static void whole_device(void) {
  struct {
    struct ibv_device_attr_ex its;
    uint8_t more[8];
  } found;
  struct ibv_device_attr plain;
  memset(&found, BEFORE, sizeof found);
  WANT(verbs()->query_device_ex(context, NULL, &found.its, sizeof found.its + 4) == 0);
  WANT(found.more[3] == 0 && found.more[4] == BEFORE);
  const struct ibv_device_attr_ex *attr = &found.its;
  ibv_query_device(context, &plain);
  WANT(memcmp(&attr->orig_attr, &plain, offsetof(struct ibv_device_attr, phys_port_cnt) + 1) == 0);
  WANT(attr->completion_timestamp_mask == UINT64_MAX && attr->hca_core_clock == 1000000);
  WANT(attr->phys_port_cnt_ex == 1 && attr->odp_caps.general == 3);
  WANT(attr->odp_caps.rc == 63 && attr->odp_caps.uc == 39 && attr->odp_caps.ud == 35);
  WANT(attr->rss_caps.supported_qpts == 1 << 8 && attr->rss_caps.max_tables == 1024);
  WANT(attr->rss_caps.max_table_size == 128 && attr->rss_caps.fields_mask == 0xff);
  WANT(attr->rss_caps.function == 1 && attr->max_wq_type_rq == 1024);
  WANT(attr->device_cap_flags_ex == plain.device_cap_flags);
  WANT(attr->comp_mask == 0 && attr->max_dm_size == 0 && attr->raw_packet_caps == 0);
  const size_t least = sizeof plain;
  memset(&found, BEFORE, sizeof found);
  WANT(verbs()->query_device_ex(context, NULL, &found.its, least - 1) == EINVAL);
  WANT(*(uint8_t *)&found == BEFORE);
  WANT(verbs()->query_device_ex(context, NULL, &found.its, least) == 0);
  WANT(((uint8_t *)&found)[least] == BEFORE && found.its.orig_attr.max_qp == 1024);
}

static void port(void) {
  struct ibv_port_attr attr;
  memset(&attr, BEFORE, sizeof attr);
  WANT(ibv_query_port(context, 0, &attr) == EINVAL && ibv_query_port(context, 2, &attr) == EINVAL);
  WANT(verbs()->query_port(context, 1, &attr, sizeof attr) == 0);
  WANT(attr.state == IBV_PORT_ACTIVE && attr.max_mtu == 5 && attr.active_mtu == 5);
  WANT(attr.gid_tbl_len == 8 && attr.port_cap_flags == (1u << 16 | 1u << 26));
  WANT(attr.max_msg_sz == 1u << 30 && attr.pkey_tbl_len == 16 && attr.max_vl_num == 1);
  WANT(attr.phys_state == 5 && attr.link_layer == IBV_LINK_LAYER_ETHERNET);
  WANT(attr.lid == 0 && attr.sm_lid == 0 && attr.flags == 0 && attr.port_cap_flags2 == 0);
  WANT(attr.active_width != 0 && attr.active_speed != 0);
  memset(&attr, BEFORE, sizeof attr);
  WANT(ibv_query_port(context, 1, &attr) == 0); /* as old programs call the function */
  WANT(attr.link_layer == IBV_LINK_LAYER_ETHERNET && attr.flags == BEFORE);
}

/* A datagram's header of 40 bytes: IPv6, or 20 unused bytes and then IPv4. */
static void handles(void) {
  union ibv_gid own[2];
  for (int i = 0; i < 2; i++) ibv_query_gid(context, 1, i, &own[i]);
  const bool first_is_v4 = own[0].raw[10] == 0xff && own[0].raw[0] == 0;
  const int v4 = first_is_v4 ? 0 : 1;
  struct ibv_wc wc = {.wc_flags = TESSERA_VERBS_WC_FLAG_GRH, .sl = 3, .slid = 9, .dlid_path_bits = 2};
  struct ibv_ah_attr attr;
  struct ibv_grh grh = {.version_tclass_flow = htonl(6u << 28 | 0xabu << 20 | 0x54321), .dgid = own[1]};
  for (int i = 0; i < 16; i++) grh.sgid.raw[i] = (uint8_t)(i + 1);
  for (int i = 0; i < 2; i++) {
    grh.dgid = own[i];
    WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == 0);
    WANT(attr.grh.sgid_index == i && memcmp(&attr.grh.dgid, &grh.sgid, 16) == 0);
    WANT(attr.grh.traffic_class == 0xab && attr.grh.flow_label == 0x54321);
    WANT(attr.grh.hop_limit == 255 && attr.is_global == 1 && attr.port_num == 1 && attr.sl == 3);
    WANT(attr.dlid == 9 && attr.src_path_bits == 2);
  }
  grh.dgid.raw[15] ^= 0x80; /* another program's */
  errno = 0;
  WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == -1 && errno == ENODEV);
  REFUSED(ENODEV, ibv_create_ah_from_wc(pd, &wc, &grh, 1));
  grh.dgid = own[1];
  uint8_t *bytes = (uint8_t *)&grh;
  for (unsigned version = 0; version < 16; version++) {
    bytes[0] = (uint8_t)(version << 4);
    bytes[20] = 0x50; /* not IPv4 either */
    errno = 0;
    const int expected = version == 6 ? 0 : -1;
    WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == expected);
    WANT(expected == 0 || errno == EINVAL);
  }
  memset(&grh, 0, sizeof grh);
  bytes[20] = 0x45;
  bytes[21] = 0x9a;
  memcpy(bytes + 32, "\x0a\x01\x02\x03", 4);
  memcpy(bytes + 36, own[v4].raw + 12, 4);
  WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == 0);
  static const uint8_t SOURCE[] = "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x01\x02\x03";
  WANT(attr.grh.sgid_index == v4 && attr.grh.traffic_class == 0x9a);
  WANT(memcmp(&attr.grh.dgid, SOURCE, 16) == 0);
  bytes[39] ^= 0x80;
  WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == -1);
  wc.wc_flags = 0; /* without a header and with LIDs there is no path */
  WANT(ibv_init_ah_from_wc(context, 1, &wc, &grh, &attr) == 0 && attr.is_global == 0);
  REFUSED(EINVAL, ibv_create_ah_from_wc(pd, &wc, &grh, 1));
  wc.wc_flags = TESSERA_VERBS_WC_FLAG_GRH;
  bytes[39] ^= 0x80;
  memcpy(bytes + 32, own[v4].raw + 12, 4);
  struct ibv_ah *ah = ibv_create_ah_from_wc(pd, &wc, &grh, 1);
  WANT(ah && ah->pd == pd && ah->context == context);
  WANT(ibv_dealloc_pd(pd) == EBUSY);
  WANT(ibv_destroy_ah(ah) == 0);
  for (int i = 0; i < 4; i++) {
    struct ibv_ah_attr wanted = {.is_global = 1, .port_num = 1, .grh = {.dgid = own[0]}};
    if (i == 0) wanted.is_global = 0;
    if (i == 1) wanted.port_num = 2;
    if (i == 2) wanted.grh.sgid_index = 2;
    if (i < 3) {
      REFUSED(EINVAL, ibv_create_ah(pd, &wanted));
      continue;
    }
    ah = ibv_create_ah(pd, &wanted);
    WANT(ah && ibv_destroy_ah(ah) == 0);
  }
}

static void clocks(void) {
  struct ibv_values_ex values = {.comp_mask = 2};
  WANT(verbs()->query_rt_values(context, &values) == EINVAL);
  values = (struct ibv_values_ex){.comp_mask = 3};
  WANT(verbs()->query_rt_values(context, &values) == EINVAL);
  values = (struct ibv_values_ex){.raw_clock.tv_sec = -1};
  WANT(verbs()->query_rt_values(context, &values) == 0 && values.raw_clock.tv_sec == -1);
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  WANT(verbs()->query_rt_values(context, &values) == 0 && values.raw_clock.tv_sec >= 0);
}

/* Read each completion alone, and in a batch that is read in place. */
static void extended_polling(void) {
  struct ibv_cq_init_attr_ex wanted = {.cqe = 8};
  struct ibv_cq_ex *ex = verbs()->create_cq_ex(context, &wanted);
  struct ibv_cq *const before = cq;
  cq = &ex->base;
  struct ibv_qp *qp = make_qp(TESSERA_VERBS_QP_TYPE_UC, NULL);
  lead(qp, TESSERA_VERBS_STATE_RESET, TESSERA_VERBS_STATE_RTS);
  uint32_t unknown = 1;
  WANT(ex->start_poll(ex, &unknown) == EINVAL);
  unknown = 0;
  WANT(ex->start_poll(ex, &unknown) == ENOENT && ex->start_poll(ex, NULL) == ENOENT);
  struct ibv_recv_wr receives[3], *bad_receive;
  for (unsigned i = 0; i < 3; i++)
    receives[i] = (struct ibv_recv_wr){.wr_id = 50 + i, .next = i < 2 ? &receives[i + 1] : NULL};
  WANT(context->ops.post_recv(qp, receives, &bad_receive) == 0);
  struct ibv_send_wr one = {.opcode = TESSERA_VERBS_OPCODE_SEND_WITH_IMM}, *bad;
  for (unsigned i = 0; i < 3; i++) {
    one.imm_data = 0x100 + i;
    WANT(context->ops.post_send(qp, &one, &bad) == 0);
  }
  for (unsigned i = 0; i < 3; i++) {
    int result;
    while ((result = ex->start_poll(ex, NULL)) == ENOENT) continue;
    WANT(result == 0);
    WANT(ex->wr_id == 50 + i && ex->status == 0 && ex->read_imm_data(ex) == 0x100 + i);
    WANT(ex->read_opcode(ex) == TESSERA_VERBS_DONE_RECV && ex->read_byte_len(ex) == 0);
    WANT(ex->read_qp_num(ex) == qp->qp_num && ex->read_wc_flags(ex) == 2);
    WANT(ex->read_slid(ex) == 0 && ex->read_sl(ex) == 0 && ex->read_dlid_path_bits(ex) == 0);
    WANT(ex->read_vendor_err(ex) == 0);
    if (i == 1) { /* the last two at once, and then none is left */
      while ((result = ex->next_poll(ex)) == ENOENT) continue;
      WANT(result == 0 && ex->wr_id == 52 && ex->read_imm_data(ex) == 0x102);
      WANT(ex->next_poll(ex) == ENOENT);
      i++;
    }
    ex->end_poll(ex);
  }
  WANT(ex->start_poll(ex, NULL) == ENOENT);
  WANT(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
  cq = before;
}

int main(void) {
  begin();
  device();
  whole_device();
  port();
  handles();
  clocks();
  extended_polling();
  return end();
}
