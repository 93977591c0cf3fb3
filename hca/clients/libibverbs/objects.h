/* The library's private data for verbs objects. */
#ifndef TSR_VERBS_OBJECTS_H
#define TSR_VERBS_OBJECTS_H

#include <stdbool.h>

#include "tessera_rdma_abi.h"
#include "verbs_types.h"

struct tsr_device {
  struct ibv_device ibv; /* first: programs have pointers to it */
  tessera_hca_device info;
  char socket_path[512];
};

/* Pages of a segment that the program has unmapped or has replaced by other mappings. */
struct tsr_hole {
  struct tsr_hole *next;
  uint64_t from, to;
};

struct tsr_segment {
  struct tsr_segment *next;
  struct tsr_hole *holes;
  uint8_t *address;
  uint64_t bytes;
  uint64_t inode; /* inode of hcad's memory */
  uint32_t handle;
  int protection;
  unsigned regions;
};

struct tsr_context {
  struct verbs_context verbs;
  struct tsr_device device;
  pthread_mutex_t asking; /* one request at a time */
  pthread_mutex_t registering;
  int socket; /* hcad's socket; also in cmd_fd where this library owns it */
  uint32_t next_request;
  bool dead, said_fatal;
  tessera_hca_client_page *page;
  int doorbell_fd;
  struct tsr_segment *segments;
  struct tsr_mr *paged;
  struct tsr_mr *implicit; /* head of the list of implicit regions */
  struct tsr_cq *cqs;
  struct tsr_qp *qps;
  struct tsr_srq *srqs;
};

/* A protection domain, or a parent domain, which is an alias of a protection domain and keeps
 * that in use. */
struct tsr_pd {
  struct ibv_pd ibv;
  struct tsr_pd *parent; /* NULL: it is not a parent domain */
  struct tsr_td *thread;
  unsigned users;
};

struct tsr_td {
  struct ibv_td ibv;
  unsigned users;
};

struct tsr_srq {
  struct ibv_srq ibv;
  struct tsr_srq *next;
  tessera_hca_srq_page *page;
  tessera_hca_recv_slot *slots;
  uint64_t page_bytes;
  uint32_t index, count, head;
  pthread_mutex_t posting;
};

struct tsr_mr {
  struct ibv_mr ibv;
  unsigned piece_count, access;
  bool exported; /* exported memory: ibv_rereg_mr() cannot change it */
  uint64_t iova;
  struct tsr_mr *next_paged; /* list of regions with on-demand paging */
  struct tsr_mr *next_part;  /* list of an implicit region's parts */
  struct tsr_implicit *implicit; /* NULL: not an implicit region */
  struct tsr_segment *segments[TESSERA_HCA_MAX_PIECES];
};


struct tsr_channel {
  struct ibv_comp_channel ibv;
  uint32_t handle;
};

#define TSR_NO_QPN UINT32_MAX /* queue pair number of entries that must not be returned any more */

struct tsr_cq {
  union {
    struct ibv_cq ibv;
    struct ibv_cq_ex ex;
  };
  const tessera_hca_cqe *current; /* the entry being read, between start_poll and end_poll */
  struct tsr_cq *next;
  tessera_hca_cq_page *page;
  tessera_hca_cqe *entries;
  uint64_t page_bytes;
  uint32_t count, tail, empty_polls;
  uint32_t events_seen, events_given; /* the program must acknowledge the given ones */
  pthread_mutex_t polling;
};

/* A work queue that receives frames: a raw packet queue pair without sends. */
struct tsr_wq {
  struct ibv_wq ibv;
  struct ibv_qp *qp;
  unsigned users;
};

/* The work queues over which frames are spread. */
struct tsr_wq_table {
  struct ibv_rwq_ind_table ibv;
  unsigned users, count;
  struct tsr_wq *wqs[TESSERA_HCA_STEER_TARGETS];
};

struct tsr_qp {
  union {
    struct ibv_qp ibv;
    struct ibv_qp_ex ex;
  };
  struct tsr_qp *next;
  tessera_hca_qp_page *page;
  tessera_hca_send_slot *send_slots;
  tessera_hca_recv_slot *recv_slots;
  uint64_t page_bytes;
  uint32_t index, send_count, recv_count, send_head, recv_head;
  struct ibv_qp_cap cap;
  bool signal_all;
  pthread_mutex_t sending, receiving;
  uint32_t building_head; /* between wr_start() and wr_complete() */
  int building_error;
  struct tsr_wq_table *table; /* NULL: it receives frames itself */
  uint64_t hash_fields;
  uint8_t hash_key[TESSERA_HCA_HASH_KEY_BYTES];
};

static inline struct tsr_context *tsr_of(struct ibv_context *context) {
  return (struct tsr_context *)((uint8_t *)context - offsetof(struct verbs_context, context));
}

#endif
