/* Socket addresses and ancillary data of packets: source, destination and segmentation. */
#ifndef HCA_WIRE_NAMES_H
#define HCA_WIRE_NAMES_H

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

union wire_name {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

union wire_control {
  struct cmsghdr header;
  uint8_t room[2 * CMSG_SPACE(sizeof(int))];
};

struct hca_wire;
/* wire/send.c: return the socket address for packets to a GID. */
socklen_t wire_name_of(const struct hca_wire *wire, const uint8_t *gid, union wire_name *name);

#endif
