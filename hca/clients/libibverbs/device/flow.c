/* Flows (ibv_create_flow): which frames a raw packet queue pair receives. The specifications of
 * a flow become one match of header fields, which includes what the specifications imply: UDP
 * ports imply the protocol UDP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "log.h"
#include "verbs_calls.h"

enum { LAYER_ETH = 1, LAYER_IP = 2, LAYER_PORTS = 4 };

struct match {
  tessera_hca_frame_fields *value, *mask;
  unsigned layers; /* layers for which there was a specification */
};

/* Add a field; false where it contradicts an earlier specification. */
static bool add(uint8_t *value, uint8_t *mask, const void *wanted, const void *bits, size_t bytes) {
  const uint8_t *from = wanted, *of = bits;
  for (size_t i = 0; i < bytes; i++) {
    if ((value[i] ^ from[i]) & mask[i] & of[i]) return false;
    value[i] |= from[i] & of[i];
    mask[i] |= of[i];
  }
  return true;
}

#define ADD(field, spec, name)                                                            \
  add((uint8_t *)&match->value->field, (uint8_t *)&match->mask->field, &(spec)->val.name, \
      &(spec)->mask.name, sizeof(spec)->val.name)

static bool add_ether_type(struct match *match, uint8_t high, uint8_t low) {
  const uint8_t wanted[2] = {high, low}, bits[2] = {0xff, 0xff};
  return add(match->value->ether_type, match->mask->ether_type, wanted, bits, sizeof wanted);
}

static bool add_eth(struct match *match, const struct ibv_flow_spec_eth *spec) {
  return ADD(destination_mac, spec, dst_mac) && ADD(source_mac, spec, src_mac) &&
         ADD(ether_type, spec, ether_type) && ADD(vlan, spec, vlan_tag);
}

static bool add_ipv4(struct match *match, const struct ibv_flow_spec_ipv4 *spec) {
  return add_ether_type(match, 0x08, 0x00) && ADD(source, spec, src_ip) &&
         ADD(destination, spec, dst_ip);
}

static bool add_ipv4_ext(struct match *match, const struct ibv_flow_spec_ipv4_ext *spec) {
  if (spec->mask.flags != 0) return false;
  return add_ether_type(match, 0x08, 0x00) && ADD(source, spec, src_ip) &&
         ADD(destination, spec, dst_ip) && ADD(protocol, spec, proto) &&
         ADD(traffic_class, spec, tos) && ADD(hop_limit, spec, ttl);
}

static bool add_ipv6(struct match *match, const struct ibv_flow_spec_ipv6 *spec) {
  return add_ether_type(match, 0x86, 0xdd) && ADD(source, spec, src_ip) &&
         ADD(destination, spec, dst_ip) && ADD(flow_label, spec, flow_label) &&
         ADD(protocol, spec, next_hdr) && ADD(traffic_class, spec, traffic_class) &&
         ADD(hop_limit, spec, hop_limit);
}

static bool add_ports(struct match *match, const struct ibv_flow_spec_tcp_udp *spec) {
  const uint8_t wanted = spec->type == IBV_FLOW_SPEC_TCP ? 6 : 17, bits = 0xff;
  return add(&match->value->protocol, &match->mask->protocol, &wanted, &bits, 1) &&
         ADD(source_port, spec, src_port) && ADD(destination_port, spec, dst_port);
}

/* Add one specification: 0 or an errno value. */
static int add_spec(struct match *match, const void *spec) {
  int type;
  memcpy(&type, spec, sizeof type);
  unsigned layer = LAYER_IP;
  if (type == IBV_FLOW_SPEC_ETH) layer = LAYER_ETH;
  if (type == IBV_FLOW_SPEC_TCP || type == IBV_FLOW_SPEC_UDP) layer = LAYER_PORTS;
  if (match->layers & layer) return EINVAL;
  match->layers |= layer;
  switch (type) {
    case IBV_FLOW_SPEC_ETH:
      return add_eth(match, spec) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV4:
      return add_ipv4(match, spec) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV4_EXT:
      return add_ipv4_ext(match, spec) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_IPV6:
      return add_ipv6(match, spec) ? 0 : EINVAL;
    case IBV_FLOW_SPEC_TCP:
    case IBV_FLOW_SPEC_UDP:
      return add_ports(match, spec) ? 0 : EINVAL;
    default:
      tsr_log("ibv_create_flow: specification %#x is not supported", type);
      return EOPNOTSUPP;
  }
}

static int read_attr(const struct ibv_flow_attr *attr, tessera_hca_steer_create *wanted) {
  struct match match = {&wanted->value, &wanted->mask, 0};
  if (attr->comp_mask != 0 || attr->port != 1) return EINVAL;
  if (attr->flags != 0 || attr->type < 0 || attr->type > IBV_FLOW_ATTR_MC_DEFAULT) {
    tsr_log("ibv_create_flow: type %d with flags %#x is not supported", attr->type, attr->flags);
    return EOPNOTSUPP;
  }
  wanted->priority = attr->priority;
  if (attr->type != IBV_FLOW_ATTR_NORMAL) {
    if (attr->num_of_specs != 0) return EINVAL;
    wanted->priority = TESSERA_HCA_STEER_DEFAULT;
    if (attr->type == IBV_FLOW_ATTR_MC_DEFAULT)
      wanted->value.destination_mac[0] = wanted->mask.destination_mac[0] = 1;
    return 0;
  }
  const uint8_t *spec = (const uint8_t *)(attr + 1);
  for (unsigned i = 0; i < attr->num_of_specs; i++) {
    const int error = add_spec(&match, spec);
    if (error != 0) return error;
    uint16_t bytes;
    memcpy(&bytes, spec + sizeof(int), sizeof bytes);
    spec += bytes;
  }
  return 0;
}

static void name_targets(const struct tsr_qp *qp, tessera_hca_steer_create *wanted) {
  wanted->target_count = qp->table ? qp->table->count : 1;
  wanted->targets[0] = qp->ibv.handle;
  if (!qp->table) return;
  for (unsigned i = 0; i < qp->table->count; i++)
    wanted->targets[i] = qp->table->wqs[i]->ibv.handle;
  wanted->hash_fields = qp->hash_fields;
  memcpy(wanted->hash_key, qp->hash_key, sizeof wanted->hash_key);
}

struct ibv_flow *tsr_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr) {
  struct ibv_flow *flow = calloc(1, sizeof *flow);
  if (!flow) return NULL;
  tessera_hca_steer_create wanted = {0};
  tessera_hca_handle made = {0};
  int error = read_attr(attr, &wanted);
  if (error == 0) {
    name_targets((const struct tsr_qp *)qp, &wanted);
    error = tsr_ask(tsr_of(qp->context), TESSERA_HCA_MESSAGE_STEER_CREATE, &wanted, sizeof wanted,
                    &made, sizeof made, NULL);
  }
  if (error != 0) {
    free(flow);
    errno = error;
    return NULL;
  }
  flow->context = qp->context;
  flow->handle = made.handle;
  return flow;
}

int tsr_destroy_flow(struct ibv_flow *flow) {
  struct tsr_context *context = tsr_of(flow->context);
  const int error = tsr_ask_handle(context, TESSERA_HCA_MESSAGE_STEER_DESTROY, flow->handle);
  if (error != 0 && !context->dead) return error;
  free(flow);
  return 0;
}
