/* rdma_getaddrinfo: addresses by name. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "ids.h"

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

/* Make the entry for hints without a name. */
static int copy_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo **made) {
  struct rdma_addrinfo *info = calloc(1, sizeof *info);
  if (!info) return EAI_MEMORY;
  info->ai_flags = hints->ai_flags;
  info->ai_family = hints->ai_family;
  info->ai_qp_type = hints->ai_qp_type;
  info->ai_port_space = hints->ai_port_space;
  info->ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len);
  info->ai_dst_addr = copy(hints->ai_dst_addr, hints->ai_dst_len);
  if (info->ai_src_addr) info->ai_src_len = hints->ai_src_len;
  if (info->ai_dst_addr) info->ai_dst_len = hints->ai_dst_len;
  *made = info;
  return 0;
}

int tsr_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                         struct rdma_addrinfo **made) {
  static const struct rdma_addrinfo NONE;
  if (!hints) hints = &NONE;
  if (!node && !service && !(hints->ai_flags & RAI_PASSIVE))
    return hints->ai_src_len || hints->ai_dst_len ? copy_hints(hints, made) : tsr_cm_result(EINVAL);
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
