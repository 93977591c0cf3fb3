/* The connection manager's public types, as far as this library uses them. layouts.def lists
 * them for the test against <rdma/rdma_cma.h>. Enumerations have the type int. */
#ifndef TSR_RDMA_TYPES_H
#define TSR_RDMA_TYPES_H

#include <netinet/in.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../libibverbs/verbs_types.h"

enum {
  RDMA_MAX_RESP_RES = 0xff,
  RDMA_MAX_INIT_DEPTH = 0xff,
  RAI_PASSIVE = 1,
  RAI_NUMERICHOST = 2,
  RAI_FAMILY = 8,
  RDMA_OPTION_ID = 0,
  RDMA_OPTION_IB = 1,
  RDMA_OPTION_ID_TOS = 0,
  RDMA_OPTION_ID_REUSEADDR = 1,
  RDMA_OPTION_ID_AFONLY = 2,
  RDMA_OPTION_ID_ACK_TIMEOUT = 3,
};

struct rdma_ib_addr {
  union ibv_gid sgid, dgid;
  uint16_t pkey;
};

struct rdma_addr {
  union {
    struct sockaddr src_addr;
    struct sockaddr_in src_sin;
    struct sockaddr_in6 src_sin6;
    struct sockaddr_storage src_storage;
  };
  union {
    struct sockaddr dst_addr;
    struct sockaddr_in dst_sin;
    struct sockaddr_in6 dst_sin6;
    struct sockaddr_storage dst_storage;
  };
  union {
    struct rdma_ib_addr ibaddr;
  } addr;
};

struct rdma_route {
  struct rdma_addr addr;
  void *path_rec;
  int num_paths;
};

struct rdma_event_channel {
  int fd;
};

struct rdma_cm_id {
  struct ibv_context *verbs;
  struct rdma_event_channel *channel;
  void *context;
  struct ibv_qp *qp;
  struct rdma_route route;
  int ps;
  uint8_t port_num;
  struct rdma_cm_event *event;
  struct ibv_comp_channel *send_cq_channel;
  struct ibv_cq *send_cq;
  struct ibv_comp_channel *recv_cq_channel;
  struct ibv_cq *recv_cq;
  struct ibv_srq *srq;
  struct ibv_pd *pd;
  int qp_type;
};

struct rdma_conn_param {
  const void *private_data;
  uint8_t private_data_len, responder_resources, initiator_depth, flow_control, retry_count;
  uint8_t rnr_retry_count, srq;
  uint32_t qp_num;
};

struct rdma_ud_param {
  const void *private_data;
  uint8_t private_data_len;
  struct ibv_ah_attr ah_attr;
  uint32_t qp_num, qkey;
};

struct rdma_cm_event {
  struct rdma_cm_id *id, *listen_id;
  int event, status;
  union {
    struct rdma_conn_param conn;
    struct rdma_ud_param ud;
  } param;
};

struct rdma_cm_join_mc_attr_ex {
  uint32_t comp_mask, join_flags;
  struct sockaddr *addr;
};

struct rdma_addrinfo {
  int ai_flags, ai_family, ai_qp_type, ai_port_space;
  socklen_t ai_src_len, ai_dst_len;
  struct sockaddr *ai_src_addr, *ai_dst_addr;
  char *ai_src_canonname, *ai_dst_canonname;
  size_t ai_route_len;
  void *ai_route;
  size_t ai_connect_len;
  void *ai_connect;
  struct rdma_addrinfo *ai_next;
};

#endif
