/* Multicast groups of an id: its queue pair joins a group when hcad reports MULTICAST_JOIN. */
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#include "verbs_api.h"

struct tsr_group **tsr_group_find(struct tsr_id *id, const uint8_t *gid) {
  struct tsr_group **link = &id->groups;
  while (*link && memcmp(&(*link)->gid, gid, sizeof(*link)->gid) != 0) link = &(*link)->next;
  return link;
}

bool tsr_group_joined(struct tsr_id *id, struct rdma_cm_event *event) {
  struct tsr_group *group = *tsr_group_find(id, event->param.ud.ah_attr.grh.dgid.raw);
  if (!group) return false;
  event->param.ud.private_data = group->context; /* as in rdma-core's librdmacm */
  if (!id->rdma.qp || group->sends_only || group->entered) return true;
  const int error = ibv_attach_mcast(id->rdma.qp, &group->gid, 0);
  group->entered = error == 0;
  if (error == 0) return true;
  event->event = TESSERA_CM_EVENT_TYPE_MULTICAST_ERROR;
  event->status = -error;
  return true;
}

int tsr_group_leave(struct tsr_id *id, struct tsr_group **link) {
  struct tsr_group *group = *link;
  *link = group->next;
  /* A destroyed queue pair has left the group already. */
  const bool inside = group->entered && id->rdma.qp;
  const int error = inside ? ibv_detach_mcast(id->rdma.qp, &group->gid, 0) : 0;
  free(group);
  return error;
}

void tsr_groups_leave(struct tsr_id *id) {
  while (id->groups) tsr_group_leave(id, &id->groups);
}
