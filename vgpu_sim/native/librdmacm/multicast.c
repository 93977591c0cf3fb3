/* Multicast groups: joined, left. hcad says when a group is there; its queue pair enters it then. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "ids.h"
#include "verbs_api.h"

enum { JOIN_ADDRESS = 1, JOIN_FLAGS = 2, FULL_MEMBER = 0, SENDS_ONLY = 1 };

struct tsr_group {
  struct tsr_group *next;
  union ibv_gid gid;
  void *context;
  bool sends_only, entered;
};

static struct tsr_group **find(struct tsr_id *id, const uint8_t *gid) {
  struct tsr_group **link = &id->groups;
  while (*link && memcmp(&(*link)->gid, gid, sizeof(*link)->gid) != 0) link = &(*link)->next;
  return link;
}

int tsr_rdma_join_multicast_ex(struct rdma_cm_id *rdma, struct rdma_cm_join_mc_attr_ex *attr,
                               void *context) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (attr->comp_mask != (JOIN_ADDRESS | JOIN_FLAGS)) return tsr_cm_result(EINVAL);
  if (attr->join_flags > SENDS_ONLY) return tsr_cm_result(EOPNOTSUPP);
  tessera_cm_bind wanted = {.handle = id->handle};
  int error = attr->addr ? tsr_address_in(attr->addr, &wanted.destination) : EINVAL;
  if (error == 0 && *find(id, wanted.destination.address)) error = EADDRINUSE;
  struct tsr_group *group = error ? NULL : calloc(1, sizeof *group);
  if (error == 0 && !group) error = ENOMEM;
  if (error != 0) return tsr_cm_result(error);
  memcpy(&group->gid, wanted.destination.address, sizeof group->gid);
  group->context = context;
  group->sends_only = attr->join_flags == SENDS_ONLY;
  group->next = id->groups; /* before the event can come, which another thread may read */
  id->groups = group;
  error = tsr_cm_ask(TESSERA_CM_MESSAGE_JOIN, &wanted, sizeof wanted, NULL, 0, NULL);
  if (error == 0) return tsr_complete(id);
  *find(id, wanted.destination.address) = group->next;
  free(group);
  return tsr_cm_result(error);
}

int tsr_rdma_join_multicast(struct rdma_cm_id *rdma, struct sockaddr *address, void *context) {
  struct rdma_cm_join_mc_attr_ex attr = {
      .comp_mask = JOIN_ADDRESS | JOIN_FLAGS, .join_flags = FULL_MEMBER, .addr = address};
  return tsr_rdma_join_multicast_ex(rdma, &attr, context);
}

bool tsr_group_joined(struct tsr_id *id, struct rdma_cm_event *event) {
  struct tsr_group *group = *find(id, event->param.ud.ah_attr.grh.dgid.raw);
  if (!group) return false;
  event->param.ud.private_data = group->context; /* as librdmacm has it */
  if (!id->rdma.qp || group->sends_only || group->entered) return true;
  const int error = ibv_attach_mcast(id->rdma.qp, &group->gid, 0);
  group->entered = error == 0;
  if (error == 0) return true;
  event->event = TESSERA_CM_EVENT_TYPE_MULTICAST_ERROR;
  event->status = -error;
  return true;
}

static int leave(struct tsr_id *id, struct tsr_group **link) {
  struct tsr_group *group = *link;
  *link = group->next;
  /* Without its queue pair it has left already. */
  const bool inside = group->entered && id->rdma.qp;
  const int error = inside ? ibv_detach_mcast(id->rdma.qp, &group->gid, 0) : 0;
  free(group);
  return error;
}

int tsr_rdma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *address) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_address wanted;
  const int error = address ? tsr_address_in(address, &wanted) : EINVAL;
  if (error != 0) return tsr_cm_result(error);
  struct tsr_group **link = find(id, wanted.address);
  return tsr_cm_result(*link ? leave(id, link) : EADDRNOTAVAIL);
}

void tsr_groups_leave(struct tsr_id *id) {
  while (id->groups) leave(id, &id->groups);
}
