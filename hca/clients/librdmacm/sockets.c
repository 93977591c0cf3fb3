/* Conversion between socket addresses and hcad's addresses. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "ids.h"

static const uint8_t MAPPED[12] = {[10] = 0xff, [11] = 0xff};

int tsr_address_in(const struct sockaddr *address, tessera_cm_address *out) {
  *out = (tessera_cm_address){0};
  if (!address) return 0;
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    if (in->sin_addr.s_addr != INADDR_ANY) {
      memcpy(out->address, MAPPED, sizeof MAPPED);
      memcpy(out->address + sizeof MAPPED, &in->sin_addr, 4);
    }
    out->port = ntohs(in->sin_port);
    return 0;
  }
  if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;
    memcpy(out->address, &in->sin6_addr, sizeof out->address);
    out->port = ntohs(in->sin6_port);
    return 0;
  }
  return EAFNOSUPPORT;
}

void tsr_address_out(const tessera_cm_address *address, struct sockaddr_storage *out) {
  const bool is_ipv4 = memcmp(address->address, MAPPED, sizeof MAPPED) == 0;
  memset(out, 0, sizeof *out);
  if (is_ipv4) {
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    in->sin_family = AF_INET;
    in->sin_port = htons(address->port);
    memcpy(&in->sin_addr, address->address + sizeof MAPPED, 4);
    return;
  }
  struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
  in->sin6_family = AF_INET6;
  in->sin6_port = htons(address->port);
  memcpy(&in->sin6_addr, address->address, sizeof in->sin6_addr);
}

void tsr_id_set_route(struct tsr_id *id, const tessera_cm_route *route) {
  struct rdma_addr *own = &id->rdma.route.addr;
  tsr_address_out(&route->source, &own->src_storage);
  tsr_address_out(&route->destination, &own->dst_storage);
}
