/* The public libibverbs types with function pointers, which inline functions call: the second
 * half of verbs_types.h. */
#ifndef TSR_VERBS_CONTEXT_H
#define TSR_VERBS_CONTEXT_H

#include "verbs_flows.h"

struct ibv_qp_ex {
  struct ibv_qp qp_base;
  uint64_t comp_mask, wr_id;
  unsigned int wr_flags;
  void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, uint64_t compare,
                            uint64_t swap);
  void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, uint64_t add);
  void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
                     const struct ibv_mw_bind_info *info);
  void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t rkey);
  void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote);
  void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote);
  void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, uint32_t imm);
  void (*wr_send)(struct ibv_qp_ex *qp);
  void (*wr_send_imm)(struct ibv_qp_ex *qp, uint32_t imm);
  void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t rkey);
  void (*wr_send_tso)(struct ibv_qp_ex *qp, void *header, uint16_t bytes, uint16_t mss);
  void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
  void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t srqn);
  void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
  void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t count,
                                  const struct ibv_data_buf *list);
  void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
  void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *list);
  void (*wr_start)(struct ibv_qp_ex *qp);
  int (*wr_complete)(struct ibv_qp_ex *qp);
  void (*wr_abort)(struct ibv_qp_ex *qp);
  void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote, const void *data);
};

struct ibv_async_event {
  union {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_srq *srq;
    int port_num;
  } element;
  int event_type;
};

/* The functions that inline functions call. Current headers never call the slots without a
 * name. */
struct ibv_context_ops {
  void *compat_before[7];
  struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, int type);
  int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
  int (*dealloc_mw)(struct ibv_mw *mw);
  void *compat_create_cq;
  int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
  int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
  void *compat_middle[7];
  int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
  void *compat_qp[4];
  int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
  int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
  void *compat_after[5];
};

struct ibv_context {
  struct ibv_device *device;
  struct ibv_context_ops ops;
  int cmd_fd, async_fd, num_comp_vectors;
  pthread_mutex_t mutex;
  void *abi_compat; /* UINTPTR_MAX: this context is part of a verbs_context */
};

struct verbs_context {
  int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                    size_t size);
  int (*advise_mr)(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *ranges,
                   uint32_t count);
  void *absent[12];
  struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
                                        struct ibv_parent_domain_init_attr *attr);
  int (*dealloc_td)(struct ibv_td *td);
  struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attr);
  void *absent_queues[2];
  int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *table);
  struct ibv_rwq_ind_table *(*create_rwq_ind_table)(struct ibv_context *context,
                                                    struct ibv_rwq_ind_table_init_attr *attr);
  int (*destroy_wq)(struct ibv_wq *wq);
  int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *attr);
  struct ibv_wq *(*create_wq)(struct ibv_context *context, struct ibv_wq_init_attr *attr);
  int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
  struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
  void *priv;
  int (*query_device_ex)(struct ibv_context *context, const uint32_t *input,
                         struct ibv_device_attr_ex *attr, size_t size);
  int (*ibv_destroy_flow)(struct ibv_flow *flow);
  void *placeholder_2;
  struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *attr);
  void *absent_flows[2];
  struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
  void *get_srq_num;
  struct ibv_srq *(*create_srq_ex)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
  void *absent_after[3];
  size_t sz;
  struct ibv_context context;
};

#endif
