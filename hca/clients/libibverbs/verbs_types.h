/* The public libibverbs types, as far as the library uses them. Programs are compiled against
 * these layouts: layouts.def lists them, and a test compares each with the distribution's
 * header. Numbers come from tessera_rdma_abi.h. */
#ifndef TSR_VERBS_TYPES_H
#define TSR_VERBS_TYPES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { IBV_SYSFS_NAME_MAX = 64, IBV_SYSFS_PATH_MAX = 256 };
enum { IBV_NODE_CA = 1, IBV_TRANSPORT_IB = 0, IBV_LINK_LAYER_ETHERNET = 2 };
enum { IBV_PORT_ACTIVE = 4, IBV_GID_TYPE_ROCE_V2 = 2 };
enum {
  IBV_QP_INIT_ATTR_PD = 1,
  IBV_QP_INIT_ATTR_CREATE_FLAGS = 4,
  IBV_QP_INIT_ATTR_IND_TABLE = 16,
  IBV_QP_INIT_ATTR_RX_HASH = 32,
  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 64,
  IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 2
};
enum { IBV_ACCESS_ON_DEMAND = 1 << 6, IBV_ACCESS_HUGETLB = 1 << 7,
       IBV_ACCESS_OPTIONAL_RANGE = 0x3ff00000 };
enum { IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
       IBV_ADVISE_MR_FLAG_FLUSH = 1 };
enum { IBV_ODP_SUPPORT = 1, IBV_ODP_SUPPORT_IMPLICIT = 2, IBV_ODP_SUPPORT_SEND = 1, IBV_ODP_SUPPORT_RECV = 2,
       IBV_ODP_SUPPORT_WRITE = 4, IBV_ODP_SUPPORT_READ = 8, IBV_ODP_SUPPORT_ATOMIC = 16,
       IBV_ODP_SUPPORT_SRQ_RECV = 32 };
enum { IBV_PORT_CM_SUP = 1 << 16, IBV_PORT_IP_BASED_GIDS = 1 << 26 };
enum {
  IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,
  IBV_DEVICE_MEM_WINDOW = 1 << 17,
  IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24
};
enum { IBV_ATOMIC_GLOB = 2 };
enum { IBV_SRQ_MAX_WR = 1, IBV_SRQ_LIMIT = 2 };
enum { IBV_SRQ_INIT_ATTR_TYPE = 1, IBV_SRQ_INIT_ATTR_PD = 2, IBV_SRQT_BASIC = 0 };
enum { IBV_REREG_MR_CHANGE_TRANSLATION = 1, IBV_REREG_MR_CHANGE_PD = 2,
       IBV_REREG_MR_CHANGE_ACCESS = 4, IBV_REREG_MR_ERR_INPUT = -1 };
enum { IBV_CQ_INIT_ATTR_MASK_FLAGS = 1, IBV_CQ_INIT_ATTR_MASK_PD = 2,
       IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 };
enum { IBV_WC_STANDARD_FLAGS = 0x7f, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11 };
enum { IBV_VALUES_MASK_RAW_CLOCK = 1 };
enum { IBV_FORK_DISABLED = 0, IBV_FORK_ENABLED = 1 };

union ibv_gid {
  uint8_t raw[16];
  uint64_t words[2];
};

struct ibv_gid_entry {
  union ibv_gid gid;
  uint32_t gid_index, port_num, gid_type, ndev_ifindex;
};

struct ibv_context;
struct ibv_srq;
struct ibv_mw;
struct ibv_xrcd;
struct ibv_ece;
struct ibv_dm;
struct ibv_rwq_ind_table;

struct ibv_device {
  void *ops[2];
  int node_type, transport_type;
  char name[IBV_SYSFS_NAME_MAX];
  char dev_name[IBV_SYSFS_NAME_MAX];
  char dev_path[IBV_SYSFS_PATH_MAX];
  char ibdev_path[IBV_SYSFS_PATH_MAX];
};

struct ibv_device_attr {
  char fw_ver[64];
  uint64_t node_guid, sys_image_guid; /* big endian */
  uint64_t max_mr_size, page_size_cap;
  uint32_t vendor_id, vendor_part_id, hw_ver;
  int max_qp, max_qp_wr;
  unsigned int device_cap_flags;
  int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
  int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
  int atomic_cap;
  int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
  int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
  int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
  uint16_t max_pkeys;
  uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_device_attr_ex {
  struct ibv_device_attr orig_attr;
  uint32_t comp_mask;
  struct {
    uint64_t general;
    uint32_t rc, uc, ud;
  } odp_caps;
  uint64_t completion_timestamp_mask, hca_core_clock, device_cap_flags_ex;
  uint32_t tso_caps[2];
  struct {
    uint32_t supported_qpts, max_tables, max_table_size;
    uint64_t fields_mask;
    uint8_t function;
  } rss_caps;
  uint32_t max_wq_type_rq, packet_pacing_caps[3], raw_packet_caps, tm_caps[5];
  uint16_t cq_mod_caps[2];
  uint64_t max_dm_size;
  uint16_t pci_atomic_caps[3];
  uint32_t xrc_odp_caps, phys_port_cnt_ex;
};

struct ibv_values_ex {
  uint32_t comp_mask;
  struct timespec raw_clock;
};

struct ibv_port_attr {
  int state, max_mtu, active_mtu;
  int gid_tbl_len;
  uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
  uint16_t pkey_tbl_len, lid, sm_lid;
  uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
  uint8_t active_width, active_speed, phys_state, link_layer, flags;
  uint16_t port_cap_flags2;
};

struct ibv_pd {
  struct ibv_context *context;
  uint32_t handle;
};

struct ibv_td {
  struct ibv_context *context;
};

struct ibv_td_init_attr {
  uint32_t comp_mask;
};

struct ibv_parent_domain_init_attr {
  struct ibv_pd *pd;
  struct ibv_td *td;
  uint32_t comp_mask;
  void *alloc, *free, *pd_context;
};

struct ibv_mr {
  struct ibv_context *context;
  struct ibv_pd *pd;
  void *addr;
  size_t length;
  uint32_t handle, lkey, rkey;
};

struct ibv_mw {
  struct ibv_context *context;
  struct ibv_pd *pd;
  uint32_t rkey, handle;
  int type;
};

struct ibv_mw_bind_info {
  struct ibv_mr *mr;
  uint64_t addr, length;
  unsigned int mw_access_flags;
};

struct ibv_mw_bind {
  uint64_t wr_id;
  unsigned int send_flags;
  struct ibv_mw_bind_info bind_info;
};

struct ibv_srq {
  struct ibv_context *context;
  void *srq_context;
  struct ibv_pd *pd;
  uint32_t handle;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t events_completed;
};

struct ibv_srq_attr {
  uint32_t max_wr, max_sge, srq_limit;
};

struct ibv_srq_init_attr {
  void *srq_context;
  struct ibv_srq_attr attr;
};

struct ibv_srq_init_attr_ex {
  void *srq_context;
  struct ibv_srq_attr attr;
  uint32_t comp_mask;
  int srq_type;
  struct ibv_pd *pd;
  struct ibv_xrcd *xrcd;
  struct ibv_cq *cq;
  uint32_t tm_cap[2];
};

struct ibv_comp_channel {
  struct ibv_context *context;
  int fd, refcnt;
};

struct ibv_cq {
  struct ibv_context *context;
  struct ibv_comp_channel *channel;
  void *cq_context;
  uint32_t handle;
  int cqe;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t comp_events_completed, async_events_completed;
};

struct ibv_cq_ex {
  struct ibv_cq base;
  uint32_t comp_mask;
  int status;
  uint64_t wr_id;
  int (*start_poll)(struct ibv_cq_ex *cq, void *attr);
  int (*next_poll)(struct ibv_cq_ex *cq);
  void (*end_poll)(struct ibv_cq_ex *cq);
  int (*read_opcode)(struct ibv_cq_ex *cq);
  uint32_t (*read_vendor_err)(struct ibv_cq_ex *cq);
  uint32_t (*read_byte_len)(struct ibv_cq_ex *cq);
  uint32_t (*read_imm_data)(struct ibv_cq_ex *cq);
  uint32_t (*read_qp_num)(struct ibv_cq_ex *cq);
  uint32_t (*read_src_qp)(struct ibv_cq_ex *cq);
  unsigned int (*read_wc_flags)(struct ibv_cq_ex *cq);
  uint32_t (*read_slid)(struct ibv_cq_ex *cq);
  uint8_t (*read_sl)(struct ibv_cq_ex *cq);
  uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *cq);
  uint64_t (*read_completion_ts)(struct ibv_cq_ex *cq);
  uint16_t (*read_cvlan)(struct ibv_cq_ex *cq);
  uint32_t (*read_flow_tag)(struct ibv_cq_ex *cq);
  void (*read_tm_info)(struct ibv_cq_ex *cq, void *info);
  uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *cq);
};

struct ibv_cq_init_attr_ex {
  uint32_t cqe;
  void *cq_context;
  struct ibv_comp_channel *channel;
  uint32_t comp_vector;
  uint64_t wc_flags;
  uint32_t comp_mask, flags;
  struct ibv_pd *parent_domain;
};

struct ibv_wc {
  uint64_t wr_id;
  int status, opcode;
  uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
  unsigned int wc_flags;
  uint16_t pkey_index, slid;
  uint8_t sl, dlid_path_bits;
};

struct ibv_global_route {
  union ibv_gid dgid;
  uint32_t flow_label;
  uint8_t sgid_index, hop_limit, traffic_class;
};

struct ibv_ah_attr {
  struct ibv_global_route grh;
  uint16_t dlid;
  uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct ibv_ah {
  struct ibv_context *context;
  struct ibv_pd *pd;
  uint32_t handle;
};

/* The 40 bytes before a datagram. */
struct ibv_grh {
  uint32_t version_tclass_flow; /* big endian, like the rest */
  uint16_t paylen;
  uint8_t next_hdr, hop_limit;
  union ibv_gid sgid, dgid;
};

struct ibv_qp_cap {
  uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct ibv_qp_init_attr {
  void *qp_context;
  struct ibv_cq *send_cq, *recv_cq;
  struct ibv_srq *srq;
  struct ibv_qp_cap cap;
  int qp_type, sq_sig_all;
};

struct ibv_qp_init_attr_ex {
  void *qp_context;
  struct ibv_cq *send_cq, *recv_cq;
  struct ibv_srq *srq;
  struct ibv_qp_cap cap;
  int qp_type, sq_sig_all;
  uint32_t comp_mask;
  struct ibv_pd *pd;
  struct ibv_xrcd *xrcd;
  uint32_t create_flags;
  uint16_t max_tso_header;
  struct ibv_rwq_ind_table *rwq_ind_tbl;
  struct {
    uint8_t function, key_len;
    uint8_t *key;
    uint64_t fields_mask;
  } rx_hash_conf;
  uint32_t source_qpn;
  uint64_t send_ops_flags;
};

struct ibv_qp_attr {
  int qp_state, cur_qp_state, path_mtu, path_mig_state;
  uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
  unsigned int qp_access_flags;
  struct ibv_qp_cap cap;
  struct ibv_ah_attr ah_attr, alt_ah_attr;
  uint16_t pkey_index, alt_pkey_index;
  uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
  uint8_t port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
  uint32_t rate_limit;
};

struct ibv_sge {
  uint64_t addr;
  uint32_t length, lkey;
};

struct ibv_send_wr {
  uint64_t wr_id;
  struct ibv_send_wr *next;
  struct ibv_sge *sg_list;
  int num_sge, opcode;
  unsigned int send_flags;
  uint32_t imm_data;
  union {
    struct {
      uint64_t remote_addr;
      uint32_t rkey;
    } rdma;
    struct {
      uint64_t remote_addr, compare_add, swap;
      uint32_t rkey;
    } atomic;
    struct {
      struct ibv_ah *ah;
      uint32_t remote_qpn, remote_qkey;
    } ud;
  } wr;
  uint32_t remote_srqn;
  struct {
    struct ibv_mw *mw;
    uint32_t rkey;
    struct ibv_mw_bind_info bind_info;
  } bind_mw;
};

struct ibv_recv_wr {
  uint64_t wr_id;
  struct ibv_recv_wr *next;
  struct ibv_sge *sg_list;
  int num_sge;
};

struct ibv_data_buf {
  void *addr;
  size_t length;
};

struct ibv_qp {
  struct ibv_context *context;
  void *qp_context;
  struct ibv_pd *pd;
  struct ibv_cq *send_cq, *recv_cq;
  struct ibv_srq *srq;
  uint32_t handle, qp_num;
  int state, qp_type;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  uint32_t events_completed;
};

#include "verbs_context.h"

#endif
