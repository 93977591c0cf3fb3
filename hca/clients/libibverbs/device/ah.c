/* Address handles and multicast groups. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "command/command.h"
#include "verbs_calls.h"

enum { IPV4_OFFSET = 20, IP6_VERSION = 6, IP4_VERSION = 4, MAX_HOPS = 255 };

struct ibv_ah *tsr_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr) {
  struct ibv_ah *ah = calloc(1, sizeof *ah);
  if (!ah) return NULL;
  tessera_hca_ah_create wanted = {.pd = pd->handle,
                                  .flow_label = attr->grh.flow_label,
                                  .sgid_index = attr->grh.sgid_index,
                                  .hop_limit = attr->grh.hop_limit,
                                  .traffic_class = attr->grh.traffic_class,
                                  .service_level = attr->sl,
                                  .is_global = attr->is_global,
                                  .port = attr->port_num};
  memcpy(wanted.dgid, &attr->grh.dgid, sizeof wanted.dgid);
  tessera_hca_handle made = {0};
  const int error = tsr_ask(tsr_of(pd->context), TESSERA_HCA_MESSAGE_AH_CREATE, &wanted,
                            sizeof wanted, &made, sizeof made, NULL);
  *ah = (struct ibv_ah){.context = pd->context, .pd = pd, .handle = made.handle};
  if (error == 0) return ah;
  free(ah);
  errno = error;
  return NULL;
}

int tsr_ibv_destroy_ah(struct ibv_ah *ah) {
  struct tsr_context *context = tsr_of(ah->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_AH_DESTROY, ah->handle);
  if (error != 0 && !context->dead) return error;
  free(ah);
  return 0;
}

static int gid_index(struct ibv_context *context, const union ibv_gid *gid) {
  for (int i = 0; i < (int)TESSERA_HCA_GIDS; i++)
    if (memcmp(tsr_of(context)->device.info.gids[i], gid, sizeof *gid) == 0) return i;
  return -1;
}

static void map_ipv4(union ibv_gid *gid, const uint8_t *address) {
  memset(gid, 0, sizeof *gid);
  gid->raw[10] = gid->raw[11] = 0xff;
  memcpy(gid->raw + 12, address, 4);
}

/* Read a datagram's source and destination from its 40 bytes: an IPv4 header is in the last 20. */
static int read_header(const struct ibv_grh *grh, struct ibv_ah_attr *attr, union ibv_gid *own) {
  const uint8_t *bytes = (const uint8_t *)grh, *ip = bytes + IPV4_OFFSET;
  if (ip[0] >> 4 == IP4_VERSION && bytes[0] >> 4 != IP6_VERSION) {
    map_ipv4(&attr->grh.dgid, ip + 12);
    map_ipv4(own, ip + 16);
    attr->grh.traffic_class = ip[1];
    return 0;
  }
  if (bytes[0] >> 4 != IP6_VERSION) return EINVAL;
  attr->grh.dgid = grh->sgid;
  *own = grh->dgid;
  const uint32_t first = ntohl(grh->version_tclass_flow);
  attr->grh.flow_label = first & 0xfffff;
  attr->grh.traffic_class = (uint8_t)(first >> 20);
  return 0;
}

int tsr_ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                            struct ibv_grh *grh, struct ibv_ah_attr *attr) {
  *attr = (struct ibv_ah_attr){.dlid = wc->slid,
                               .sl = wc->sl,
                               .src_path_bits = wc->dlid_path_bits,
                               .port_num = port};
  if (!(wc->wc_flags & TESSERA_VERBS_WC_FLAG_GRH)) return 0;
  attr->is_global = 1;
  attr->grh.hop_limit = MAX_HOPS;
  union ibv_gid own;
  const int error = read_header(grh, attr, &own);
  const int index = error ? -1 : gid_index(context, &own);
  if (index < 0) {
    errno = error ? error : ENODEV;
    return -1;
  }
  attr->grh.sgid_index = (uint8_t)index;
  return 0;
}

struct ibv_ah *tsr_ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                         uint8_t port) {
  struct ibv_ah_attr attr;
  if (tsr_ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return NULL;
  return tsr_ibv_create_ah(pd, &attr);
}

static int change_membership(struct ibv_qp *qp, uint16_t message, const union ibv_gid *gid) {
  tessera_hca_mcast wanted = {.qpn = qp->qp_num};
  memcpy(wanted.gid, gid, sizeof wanted.gid);
  return tsr_ask(tsr_of(qp->context), message, &wanted, sizeof wanted, NULL, 0, NULL);
}

int tsr_ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  (void)lid; /* Ethernet has none */
  return change_membership(qp, TESSERA_HCA_MESSAGE_MCAST_ATTACH, gid);
}

int tsr_ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid) {
  (void)lid;
  return change_membership(qp, TESSERA_HCA_MESSAGE_MCAST_DETACH, gid);
}
