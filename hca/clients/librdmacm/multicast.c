/* rdma_join_multicast, rdma_leave_multicast. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "groups.h"
#include "ids.h"

enum { JOIN_ADDRESS = 1, JOIN_FLAGS = 2, FULL_MEMBER = 0, SENDS_ONLY = 1 };

int tsr_rdma_join_multicast_ex(struct rdma_cm_id *rdma, struct rdma_cm_join_mc_attr_ex *attr,
                               void *context) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (attr->comp_mask != (JOIN_ADDRESS | JOIN_FLAGS)) return tsr_cm_result(EINVAL);
  if (attr->join_flags > SENDS_ONLY) return tsr_cm_result(EOPNOTSUPP);
  tessera_cm_bind wanted = {.handle = id->handle};
  int error = attr->addr ? tsr_address_in(attr->addr, &wanted.destination) : EINVAL;
  if (error == 0 && *tsr_group_find(id, wanted.destination.address)) error = EADDRINUSE;
  struct tsr_group *group = error ? NULL : calloc(1, sizeof *group);
  if (error == 0 && !group) error = ENOMEM;
  if (error != 0) return tsr_cm_result(error);
  memcpy(&group->gid, wanted.destination.address, sizeof group->gid);
  group->context = context;
  group->sends_only = attr->join_flags == SENDS_ONLY;
  group->next = id->groups; /* before the event can arrive, because another thread may read it */
  id->groups = group;
  error = tsr_cm_ask(TESSERA_CM_MESSAGE_JOIN, &wanted, sizeof wanted, NULL, 0, NULL);
  if (error == 0) return tsr_complete(id);
  *tsr_group_find(id, wanted.destination.address) = group->next;
  free(group);
  return tsr_cm_result(error);
}

int tsr_rdma_join_multicast(struct rdma_cm_id *rdma, struct sockaddr *address, void *context) {
  struct rdma_cm_join_mc_attr_ex attr = {
      .comp_mask = JOIN_ADDRESS | JOIN_FLAGS, .join_flags = FULL_MEMBER, .addr = address};
  return tsr_rdma_join_multicast_ex(rdma, &attr, context);
}

int tsr_rdma_leave_multicast(struct rdma_cm_id *rdma, struct sockaddr *address) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_address wanted;
  const int error = address ? tsr_address_in(address, &wanted) : EINVAL;
  if (error != 0) return tsr_cm_result(error);
  struct tsr_group **link = tsr_group_find(id, wanted.address);
  return tsr_cm_result(*link ? tsr_group_leave(id, link) : EADDRNOTAVAIL);
}
