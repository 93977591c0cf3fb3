/* The library's private data for the connection manager's ids. */
#ifndef TSR_RDMA_IDS_H
#define TSR_RDMA_IDS_H

#include <stdbool.h>

#include "link.h"
#include "rdma_types.h"

struct tsr_channel {
  struct rdma_event_channel rdma; /* first: programs have pointers to it */
  uint32_t handle;
};

struct tsr_event {
  struct rdma_cm_event rdma;
  struct tsr_id *counted; /* the id whose destruction waits for the acknowledgement of this event */
  uint8_t data[TESSERA_CM_MAX_DATA];
};

struct tsr_id {
  struct rdma_cm_id rdma;
  struct tsr_id *next;
  uint32_t handle;
  bool sync; /* calls wait for their events; the id owns the channel */
  bool has_path;
  tessera_hca_qp_attributes path; /* attributes to set on its queue pair */
  uint32_t qkey;
  uint8_t responder_resources, initiator_depth; /* as the peer reported them */
  uint8_t traffic_class, ack_timeout;
  bool reuse;
  bool own_cqs;
  struct ibv_qp_init_attr *init; /* of rdma_create_ep's listener: for the queue pairs it gets */
  struct tsr_group *groups; /* groups that it has joined or is joining */
  unsigned events_given, events_acknowledged;
};

/* The table of ids, by hcad's handles. tsr_id_find() with `for_event` also counts an event
 * passed to the program. */
struct tsr_id *tsr_id_new(uint32_t handle, struct rdma_event_channel *channel, void *context,
                          int space);
void tsr_id_add(struct tsr_id *id);
struct tsr_id *tsr_id_find(uint32_t handle, bool for_event);
void tsr_id_remove(struct tsr_id *id);
void tsr_id_acknowledge(struct tsr_id *id);
void tsr_id_wait_acknowledged(struct tsr_id *id);

/* The device, opened once; NULL with errno set. */
struct ibv_context *tsr_verbs(void);
/* The protection domain for programs that pass none. */
struct ibv_pd *tsr_default_pd(void);
/* Bind an id to the device; 0 or an errno value. */
int tsr_id_bind_device(struct tsr_id *id);

/* Conversion between socket addresses and hcad's. */
int tsr_address_in(const struct sockaddr *address, tessera_cm_address *out);
void tsr_address_out(const tessera_cm_address *address, struct sockaddr_storage *out);
void tsr_id_set_route(struct tsr_id *id, const tessera_cm_route *route);

/* Queue pairs of an id: 0, or -1 with errno set. */
int tsr_qp_connect(struct tsr_id *id, uint8_t responder_resources, uint8_t initiator_depth);
void tsr_qp_fail(struct tsr_id *id);

/* Join the group of a MULTICAST_JOIN event; false where the program has left the group
 * meanwhile. */
bool tsr_group_joined(struct tsr_id *id, struct rdma_cm_event *event);
void tsr_groups_leave(struct tsr_id *id);

/* Wait for the event of a call on a synchronous id; 0, or -1 with errno set. */
int tsr_complete(struct tsr_id *id);

#endif
