/* Socket addresses of ranks, in the form that they have in messages. */
#ifndef TSR_NCCL_ADDRESSES_H
#define TSR_NCCL_ADDRESSES_H

#include <stdint.h>
#include <sys/socket.h>

struct tsr_address {
  uint16_t family; /* AF_INET or AF_INET6 */
  uint16_t port;   /* in network order */
  uint32_t scope;
  uint8_t bytes[16];
};

/* Return a listening socket, and its address: that of an interface that NCCL_SOCKET_IFNAME and
 * NCCL_SOCKET_FAMILY permit, or of the loopback interface if there is no other. -1: there is none. */
int tsr_listen(struct tsr_address *address);

/* Return a connected socket, or -1. */
int tsr_connect(const struct tsr_address *address);

#endif
