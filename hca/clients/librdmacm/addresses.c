/* rdma_bind_addr, rdma_listen, rdma_resolve_addr, rdma_resolve_route and the ports of ids. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "api.h"
#include "ids.h"

static size_t size_of(const struct sockaddr *address) {
  return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* The port has the same offset in both address families. */
static uint16_t *port_of(struct sockaddr_storage *address) {
  return &((struct sockaddr_in *)address)->sin_port;
}

/* Store the source address that hcad reports. A wildcard address keeps the program's address
 * family. */
static int take_source(struct tsr_id *id, const struct sockaddr *requested,
                       const tessera_cm_route *route) {
  static const uint8_t ANY[16];
  struct sockaddr_storage *source = &id->rdma.route.addr.src_storage;
  if (memcmp(route->source.address, ANY, sizeof ANY) != 0) {
    tsr_address_out(&route->source, source);
  } else if (requested) {
    memcpy(source, requested, size_of(requested));
  } else {
    source->ss_family = AF_INET;
  }
  *port_of(source) = htons(route->source.port);
  return route->has_device ? tsr_id_bind_device(id) : 0;
}

int tsr_rdma_bind_addr(struct rdma_cm_id *rdma, struct sockaddr *address) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_bind wanted = {.handle = id->handle, .reuse = id->reuse};
  int error = address ? tsr_address_in(address, &wanted.source) : EINVAL;
  tessera_cm_route route;
  if (error == 0)
    error = tsr_cm_ask(TESSERA_CM_MESSAGE_BIND, &wanted, sizeof wanted, &route, sizeof route, NULL);
  if (error == 0) error = take_source(id, address, &route);
  return tsr_cm_result(error);
}

int tsr_rdma_listen(struct rdma_cm_id *rdma, int backlog) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  const tessera_cm_pair wanted = {.handle = id->handle,
                                  .value = backlog > 0 ? (uint32_t)backlog : 0};
  tessera_cm_route route;
  int error =
      tsr_cm_ask(TESSERA_CM_MESSAGE_LISTEN, &wanted, sizeof wanted, &route, sizeof route, NULL);
  if (error == 0) *port_of(&rdma->route.addr.src_storage) = htons(route.source.port);
  return tsr_cm_result(error);
}

int tsr_rdma_resolve_addr(struct rdma_cm_id *rdma, struct sockaddr *source,
                          struct sockaddr *destination, int timeout_ms) {
  (void)timeout_ms; /* unused: hcad knows every address */
  struct tsr_id *id = (struct tsr_id *)rdma;
  tessera_cm_bind wanted = {.handle = id->handle, .reuse = id->reuse};
  int error = destination ? tsr_address_in(destination, &wanted.destination) : EINVAL;
  if (error == 0) error = tsr_address_in(source, &wanted.source);
  if (error == 0)
    error = tsr_cm_ask(TESSERA_CM_MESSAGE_RESOLVE_ADDRESS, &wanted, sizeof wanted, NULL, 0, NULL);
  return error ? tsr_cm_result(error) : tsr_complete(id);
}

int tsr_rdma_resolve_route(struct rdma_cm_id *rdma, int timeout_ms) {
  (void)timeout_ms;
  struct tsr_id *id = (struct tsr_id *)rdma;
  const int error = tsr_cm_ask_handle(TESSERA_CM_MESSAGE_RESOLVE_ROUTE, id->handle);
  return error ? tsr_cm_result(error) : tsr_complete(id);
}

uint16_t tsr_rdma_get_src_port(struct rdma_cm_id *rdma) {
  return *port_of(&rdma->route.addr.src_storage);
}

uint16_t tsr_rdma_get_dst_port(struct rdma_cm_id *rdma) {
  return *port_of(&rdma->route.addr.dst_storage);
}
