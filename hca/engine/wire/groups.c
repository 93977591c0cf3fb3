/* Multicast groups that a local address has joined. Each has its own socket, because a socket
 * bound to one address receives nothing that is sent to another. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire/wire.h"

static struct wire_group **find(struct hca_wire *wire, const uint8_t *gid) {
  struct wire_group **link = &wire->groups;
  while (*link && memcmp((*link)->gid, gid, sizeof(*link)->gid) != 0) link = &(*link)->next;
  return link;
}

static void drop(struct wire_group *group) {
  close(group->port.fd);
  free(group);
}

int hca_wire_join(struct hca *hca, struct hca_wire *wire, const uint8_t *gid, int fd) {
  struct wire_group *group = calloc(1, sizeof *group);
  if (!group) return ENOMEM;
  memcpy(group->gid, gid, sizeof group->gid);
  group->port = (struct wire_port){wire, fcntl(fd, F_DUPFD_CLOEXEC, 3), group->gid, 0};
  if (group->port.fd < 0) {
    const int error = errno;
    free(group);
    return error;
  }
  hca_enter(hca);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &group->port};
  int error = *find(wire, gid) ? EEXIST : 0;
  if (!error && epoll_ctl(hca->wire_epoll_fd, EPOLL_CTL_ADD, group->port.fd, &event) != 0)
    error = errno;
  if (!error) {
    group->next = wire->groups;
    wire->groups = group;
  }
  hca_leave(hca);
  if (error) drop(group);
  return error;
}

void hca_wire_quit(struct hca *hca, struct hca_wire *wire, const uint8_t *gid) {
  hca_enter(hca);
  struct wire_group **link = find(wire, gid), *group = *link;
  if (group) {
    *link = group->next;
    epoll_ctl(hca->wire_epoll_fd, EPOLL_CTL_DEL, group->port.fd, NULL);
  }
  hca_leave(hca);
  if (group) drop(group);
}

void wire_groups_end(struct hca_wire *wire) {
  while (wire->groups) {
    struct wire_group *group = wire->groups;
    wire->groups = group->next;
    drop(group);
  }
}
