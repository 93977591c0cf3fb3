/* The public libibverbs types for frames: flows and work queues; see verbs_types.h. */
#ifndef TSR_VERBS_FLOWS_H
#define TSR_VERBS_FLOWS_H

enum { IBV_FLOW_ATTR_NORMAL = 0, IBV_FLOW_ATTR_ALL_DEFAULT = 1, IBV_FLOW_ATTR_MC_DEFAULT = 2 };
enum { IBV_FLOW_SPEC_ETH = 0x20, IBV_FLOW_SPEC_IPV4 = 0x30, IBV_FLOW_SPEC_IPV6 = 0x31,
       IBV_FLOW_SPEC_IPV4_EXT = 0x32, IBV_FLOW_SPEC_TCP = 0x40, IBV_FLOW_SPEC_UDP = 0x41 };
enum { IBV_WQT_RQ = 0, IBV_WQS_RESET = 0, IBV_WQS_RDY = 1, IBV_WQS_ERR = 2,
       IBV_WQ_ATTR_STATE = 1, IBV_WQ_ATTR_CURR_STATE = 2 };
enum { IBV_RX_HASH_FUNC_TOEPLITZ = 1, TSR_RX_HASH_KNOWN = 0xff /* addresses and ports */ };

struct ibv_flow_eth_filter {
  uint8_t dst_mac[6], src_mac[6];
  uint16_t ether_type, vlan_tag; /* big endian, like all following fields */
};

struct ibv_flow_spec_eth {
  int type;
  uint16_t size;
  struct ibv_flow_eth_filter val, mask;
};

struct ibv_flow_ipv4_filter {
  uint32_t src_ip, dst_ip;
};

struct ibv_flow_spec_ipv4 {
  int type;
  uint16_t size;
  struct ibv_flow_ipv4_filter val, mask;
};

struct ibv_flow_ipv4_ext_filter {
  uint32_t src_ip, dst_ip;
  uint8_t proto, tos, ttl, flags;
};

struct ibv_flow_spec_ipv4_ext {
  int type;
  uint16_t size;
  struct ibv_flow_ipv4_ext_filter val, mask;
};

struct ibv_flow_ipv6_filter {
  uint8_t src_ip[16], dst_ip[16];
  uint32_t flow_label;
  uint8_t next_hdr, traffic_class, hop_limit;
};

struct ibv_flow_spec_ipv6 {
  int type;
  uint16_t size;
  struct ibv_flow_ipv6_filter val, mask;
};

struct ibv_flow_tcp_udp_filter {
  uint16_t dst_port, src_port;
};

struct ibv_flow_spec_tcp_udp {
  int type;
  uint16_t size;
  struct ibv_flow_tcp_udp_filter val, mask;
};

/* The header of a flow's specifications, which follow it; it holds their number. */
struct ibv_flow_attr {
  uint32_t comp_mask;
  int type;
  uint16_t size, priority;
  uint8_t num_of_specs, port;
  uint32_t flags;
};

struct ibv_flow {
  uint32_t comp_mask;
  struct ibv_context *context;
  uint32_t handle;
};

struct ibv_wq {
  struct ibv_context *context;
  void *wq_context;
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  uint32_t wq_num, handle;
  int state, wq_type;
  int (*post_recv)(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t events_completed, comp_mask;
};

struct ibv_wq_init_attr {
  void *wq_context;
  int wq_type;
  uint32_t max_wr, max_sge;
  struct ibv_pd *pd;
  struct ibv_cq *cq;
  uint32_t comp_mask, create_flags;
};

struct ibv_wq_attr {
  uint32_t attr_mask;
  int wq_state, curr_wq_state;
  uint32_t flags, flags_mask;
};

struct ibv_rwq_ind_table {
  struct ibv_context *context;
  int ind_tbl_handle, ind_tbl_num;
  uint32_t comp_mask;
};

struct ibv_rwq_ind_table_init_attr {
  uint32_t log_ind_tbl_size;
  struct ibv_wq **ind_tbl;
  uint32_t comp_mask;
};

#endif
