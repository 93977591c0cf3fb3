/* Multicast groups of an id. */
#ifndef TESSERA_GROUPS_H
#define TESSERA_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "ids.h"

struct tsr_group {
  struct tsr_group *next;
  union ibv_gid gid;
  void *context;
  bool sends_only, entered;
};

/* Return the link to the group in the id's list, or the list's end. */
struct tsr_group **tsr_group_find(struct tsr_id *id, const uint8_t *gid);
/* Leave and free a group; 0 or an errno value. */
int tsr_group_leave(struct tsr_id *id, struct tsr_group **link);

#endif
