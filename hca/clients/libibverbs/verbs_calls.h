/* Functions that verbs headers call through pointers in a context. */
#ifndef TSR_VERBS_CALLS_H
#define TSR_VERBS_CALLS_H

#include "objects.h"

int tsr_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                   size_t size);
struct ibv_qp *tsr_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int tsr_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int tsr_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int tsr_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int tsr_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_cq_ex *tsr_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_srq *tsr_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int tsr_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int tsr_query_device_ex(struct ibv_context *context, const uint32_t *input,
                        struct ibv_device_attr_ex *attr, size_t size);
int tsr_advise_mr(struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *ranges,
                  uint32_t count);
struct ibv_td *tsr_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int tsr_dealloc_td(struct ibv_td *td);
struct ibv_pd *tsr_alloc_parent_domain(struct ibv_context *context,
                                       struct ibv_parent_domain_init_attr *attr);
int tsr_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_mw *tsr_alloc_mw(struct ibv_pd *pd, int type);
int tsr_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int tsr_dealloc_mw(struct ibv_mw *mw);

struct ibv_flow *tsr_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int tsr_destroy_flow(struct ibv_flow *flow);
struct ibv_wq *tsr_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int tsr_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int tsr_destroy_wq(struct ibv_wq *wq);
struct ibv_rwq_ind_table *tsr_create_rwq_ind_table(struct ibv_context *context,
                                                   struct ibv_rwq_ind_table_init_attr *attr);
int tsr_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* Discard the entries of a queue pair that was reset or destroyed. */
void tsr_forget_completions(struct ibv_cq *cq, uint32_t qpn);
/* Set the ibv_wr_* functions of a queue pair that builds its requests by calls. */
void tsr_set_builder(struct ibv_qp_ex *qp);

#endif
