/* Addresses: bound, resolved, looked up by name. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "ids.h"
#include "verbs_api.h"

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

static size_t size_of(const struct sockaddr *address) {
  return address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* The port lies in the same place in both families. */
static uint16_t *port_of(struct sockaddr_storage *address) {
  return &((struct sockaddr_in *)address)->sin_port;
}

/* What hcad says of the source; an address that is any keeps the program's family. */
static int take_source(struct tsr_id *id, const struct sockaddr *asked,
                       const tessera_cm_route *route) {
  static const uint8_t ANY[16];
  struct sockaddr_storage *source = &id->rdma.route.addr.src_storage;
  if (memcmp(route->source.address, ANY, sizeof ANY) != 0) {
    tsr_address_out(&route->source, source);
  } else if (asked) {
    memcpy(source, asked, size_of(asked));
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
  (void)timeout_ms; /* hcad knows every address */
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

static struct sockaddr *copy(const struct sockaddr *address, socklen_t bytes) {
  void *made = address && bytes ? malloc(bytes) : NULL;
  return made ? memcpy(made, address, bytes) : NULL;
}

static struct rdma_addrinfo *convert(const struct addrinfo *found,
                                     const struct rdma_addrinfo *hints) {
  struct rdma_addrinfo *info = calloc(1, sizeof *info);
  if (!info) return NULL;
  info->ai_flags = hints->ai_flags;
  info->ai_family = found->ai_family;
  info->ai_qp_type = hints->ai_qp_type;
  info->ai_port_space = hints->ai_port_space;
  const bool datagrams = hints->ai_qp_type == TESSERA_VERBS_QP_TYPE_UD ||
                         hints->ai_port_space == TESSERA_CM_PORT_SPACE_UDP;
  if (!info->ai_qp_type)
    info->ai_qp_type = datagrams ? TESSERA_VERBS_QP_TYPE_UD : TESSERA_VERBS_QP_TYPE_RC;
  if (!info->ai_port_space)
    info->ai_port_space = datagrams ? TESSERA_CM_PORT_SPACE_UDP : TESSERA_CM_PORT_SPACE_TCP;
  bool whole;
  if (hints->ai_flags & RAI_PASSIVE) {
    info->ai_src_len = found->ai_addrlen;
    whole = (info->ai_src_addr = copy(found->ai_addr, found->ai_addrlen));
  } else {
    info->ai_dst_len = found->ai_addrlen;
    whole = (info->ai_dst_addr = copy(found->ai_addr, found->ai_addrlen));
    if (whole && hints->ai_src_len) {
      info->ai_src_len = hints->ai_src_len;
      whole = (info->ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len));
    }
  }
  if (whole) return info;
  tsr_rdma_freeaddrinfo(info);
  return NULL;
}

int tsr_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                         struct rdma_addrinfo **made) {
  static const struct rdma_addrinfo NONE;
  if (!hints) hints = &NONE;
  if (!node && !service && !(hints->ai_flags & RAI_PASSIVE)) return tsr_cm_result(EINVAL);
  const struct addrinfo wanted = {
      .ai_flags = (hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
                  (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
      .ai_family = hints->ai_family,
      .ai_socktype = hints->ai_port_space == TESSERA_CM_PORT_SPACE_UDP ? SOCK_DGRAM : SOCK_STREAM};
  struct addrinfo *found;
  const int error = getaddrinfo(node, node || service ? service : "0", &wanted, &found);
  if (error != 0) return error;
  *made = NULL;
  struct rdma_addrinfo **link = made;
  for (const struct addrinfo *one = found; one; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    *link = convert(one, hints);
    if (!*link) {
      tsr_rdma_freeaddrinfo(*made);
      freeaddrinfo(found);
      return EAI_MEMORY;
    }
    link = &(*link)->ai_next;
  }
  freeaddrinfo(found);
  return *made ? 0 : EAI_NONAME;
}

void tsr_rdma_freeaddrinfo(struct rdma_addrinfo *info) {
  while (info) {
    struct rdma_addrinfo *next = info->ai_next;
    free(info->ai_src_addr);
    free(info->ai_dst_addr);
    free(info);
    info = next;
  }
}
