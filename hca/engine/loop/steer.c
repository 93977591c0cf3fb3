/* Flow steering: hcad's rules map frames to raw packet queue pairs, and receive-side scaling
 * spreads frames over several queue pairs by a hash. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "requests/work.h"

/* Bits of ibv_rx_hash_fields. */
enum {
  SOURCE_IPV4 = 1 << 0,
  DESTINATION_IPV4 = 1 << 1,
  SOURCE_IPV6 = 1 << 2,
  DESTINATION_IPV6 = 1 << 3,
  SOURCE_TCP = 1 << 4,
  DESTINATION_TCP = 1 << 5,
  SOURCE_UDP = 1 << 6,
  DESTINATION_UDP = 1 << 7,
};

struct hca_steer *hca_steer_new(struct hca *hca, const tessera_hca_steer_create *wanted,
                                struct hca_qp *const *targets) {
  struct hca_steer *steer = calloc(1, sizeof *steer);
  if (!steer) return NULL;
  steer->wanted = *wanted;
  memcpy(steer->targets, targets, wanted->target_count * sizeof *targets);
  hca_enter(hca);
  struct hca_steer **link = &hca->steers;
  while (*link && (*link)->wanted.priority <= wanted->priority) link = &(*link)->next;
  steer->next = *link;
  *link = steer;
  hca_leave(hca);
  return steer;
}

void hca_steer_free(struct hca *hca, struct hca_steer *steer) {
  hca_enter(hca);
  struct hca_steer **link = &hca->steers;
  while (*link && *link != steer) link = &(*link)->next;
  if (*link) *link = steer->next;
  hca_leave(hca);
  free(steer);
}

bool hca_steers(const struct hca_steer *steer, const tessera_hca_frame_fields *fields) {
  const uint8_t *seen = (const uint8_t *)fields;
  const uint8_t *value = (const uint8_t *)&steer->wanted.value;
  const uint8_t *mask = (const uint8_t *)&steer->wanted.mask;
  uint8_t other = 0;
  for (size_t i = 0; i < sizeof *fields; i++) other |= (seen[i] ^ value[i]) & mask[i];
  return other == 0;
}

/* Append a field to the hash input if it is selected. */
static void add(uint8_t *input, size_t *used, bool selected, const uint8_t *field, size_t bytes) {
  if (!selected) return;
  memcpy(input + *used, field, bytes);
  *used += bytes;
}

static size_t hashed(uint64_t selected, const tessera_hca_frame_fields *fields, uint8_t *input) {
  const bool ipv4 = fields->ether_type[0] == 0x08 && fields->ether_type[1] == 0;
  const bool ipv6 = fields->ether_type[0] == 0x86 && fields->ether_type[1] == 0xDD;
  const bool tcp = fields->protocol == 6, udp = fields->protocol == 17;
  const size_t address = ipv4 ? 4 : 16;
  size_t used = 0;
  add(input, &used, (ipv4 && selected & SOURCE_IPV4) || (ipv6 && selected & SOURCE_IPV6),
      fields->source, address);
  add(input, &used, (ipv4 && selected & DESTINATION_IPV4) || (ipv6 && selected & DESTINATION_IPV6),
      fields->destination, address);
  add(input, &used, (tcp && selected & SOURCE_TCP) || (udp && selected & SOURCE_UDP),
      fields->source_port, 2);
  add(input, &used, (tcp && selected & DESTINATION_TCP) || (udp && selected & DESTINATION_UDP),
      fields->destination_port, 2);
  return used;
}

/* Toeplitz hash: for each set input bit, XOR the 32 key bits that begin at its position. */
static uint32_t toeplitz(const uint8_t *key, const uint8_t *input, size_t bytes) {
  uint32_t window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 | (uint32_t)key[2] << 8 |
                    key[3];
  uint32_t hash = 0;
  for (size_t i = 0; i < bytes; i++) {
    for (int bit = 7; bit >= 0; bit--) {
      if (input[i] >> bit & 1) hash ^= window;
      window = window << 1 | (key[i + 4] >> bit & 1);
    }
  }
  return hash;
}

struct hca_qp *hca_steer_target(const struct hca_steer *steer,
                                const tessera_hca_frame_fields *fields) {
  const tessera_hca_steer_create *wanted = &steer->wanted;
  /* two addresses and two ports; the key is four bytes longer: TESSERA_HCA_HASH_KEY_BYTES */
  uint8_t input[36];
  if (wanted->target_count == 1) return steer->targets[0];
  const size_t bytes = hashed(wanted->hash_fields, fields, input);
  return steer->targets[toeplitz(wanted->hash_key, input, bytes) % wanted->target_count];
}
