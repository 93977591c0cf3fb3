/* Senders of datagrams over a wire, and hcad's verdicts on what policy allows them.
 *
 * A few datagrams of a new sender wait for hcad's verdict: dropping them would lose the first
 * message of each peer, and blocking the engine would stop all traffic. A flood with forged
 * source addresses can displace the waiting datagrams of other senders; these are lost, which UD
 * permits. Senders with a verdict are not affected. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/wire.h"

enum { MOST_HELD = 64 };

struct wire_source {
  struct hca_ah ah; /* first, because hca_policies_set() treats a source as an address handle */
  struct hca_wire *wire;
  struct wire_source *next;
};

static struct wire_source **list_of(struct hca_wire *wire, const uint8_t *gid) {
  unsigned sum = 0;
  for (unsigned i = 0; i < 16; i++) sum = sum * 31 + gid[i];
  return &wire->sources[sum % WIRE_SOURCE_LISTS];
}

static struct wire_source *find(struct hca_wire *wire, const uint8_t *gid) {
  struct wire_source *source = *list_of(wire, gid);
  while (source && memcmp(source->ah.path.dgid, gid, sizeof source->ah.path.dgid) != 0)
    source = source->next;
  return source;
}

static void ring(const struct hca *hca) {
  const uint64_t one = 1;
  /* the counter is full: it is readable already */
  if (write(hca->sources_fd, &one, sizeof one) < 0) return;
}

const struct hca_policy *wire_source_of(struct hca *hca, struct hca_wire *wire,
                                        const struct wire_path *path, unsigned part,
                                        const uint8_t *data, size_t bytes) {
  const struct wire_source *source = find(wire, path->source);
  if (source) return &source->ah.policy;
  struct wire_held *held = malloc(sizeof *held + bytes);
  if (!held) {
    wire->counts.unjudged++;
    return NULL;
  }
  *held = (struct wire_held){.path = *path, .part = part, .bytes = bytes};
  memcpy(held->data, data, bytes);
  struct wire_held **link = &wire->held;
  bool reported = false; /* this source was already reported to hcad */
  for (; *link; link = &(*link)->next)
    reported |= (*link)->reported && memcmp((*link)->path.source, path->source, 16) == 0;
  *link = held;
  held->reported = reported;
  if (++wire->held_count > MOST_HELD) {
    struct wire_held *oldest = wire->held;
    wire->held = oldest->next;
    wire->held_count--;
    wire->counts.unjudged++;
    free(oldest);
  }
  if (!reported) ring(hca);
  return NULL;
}

/* Remove the waiting datagrams of one source from the list, in order. */
static struct wire_held *release(struct hca_wire *wire, const uint8_t *gid) {
  struct wire_held *released = NULL, **end = &released;
  for (struct wire_held **link = &wire->held; *link;) {
    struct wire_held *held = *link;
    if (memcmp(held->path.source, gid, sizeof held->path.source) != 0) {
      link = &held->next;
      continue;
    }
    *link = held->next;
    held->next = NULL;
    *end = held;
    end = &held->next;
    wire->held_count--;
  }
  return released;
}

void wire_held_free(struct wire_held *held) {
  while (held) {
    struct wire_held *next = held->next;
    free(held);
    held = next;
  }
}

int hca_pending_sources_fd(const struct hca *hca) { return hca->sources_fd; }

uint32_t hca_pending_sources(struct hca *hca, tessera_hca_pending_source *pending, uint32_t room) {
  uint32_t count = 0;
  uint64_t rang;
  hca_enter(hca);
  if (read(hca->sources_fd, &rang, sizeof rang) < 0) rang = 0;
  for (struct hca_wire *wire = hca->wires; wire; wire = wire->next) {
    for (struct wire_held *held = wire->held; held; held = held->next) {
      if (held->reported) continue;
      if (count == room) {
        ring(hca); /* more sources are left */
        break;
      }
      pending[count] = (tessera_hca_pending_source){.wire = (uintptr_t)wire};
      memcpy(pending[count].own, wire->gid, sizeof wire->gid);
      memcpy(pending[count++].source, held->path.source, sizeof held->path.source);
      for (struct wire_held *other = held; other; other = other->next)
        other->reported |= memcmp(other->path.source, held->path.source, 16) == 0;
    }
  }
  hca_leave(hca);
  return count;
}

struct hca_ah *hca_source_new(struct hca *hca, struct hca_wire *wire, const uint8_t *gid) {
  (void)hca; /* the engine does not use the source before hca_source_take() */
  struct wire_source *source = calloc(1, sizeof *source);
  if (!source) {
    errno = ENOMEM;
    return NULL;
  }
  source->wire = wire;
  memcpy(source->ah.path.dgid, gid, sizeof source->ah.path.dgid);
  return &source->ah;
}

void hca_source_take(struct hca *hca, struct hca_ah *ah) {
  struct wire_source *source = (struct wire_source *)ah;
  struct hca_wire *wire = source->wire;
  hca_enter(hca);
  struct wire_source **list = list_of(wire, ah->path.dgid);
  if (!find(wire, ah->path.dgid)) {
    source->next = *list;
    *list = source;
  }
  hca->sources_evaluated = true;
  hca_leave(hca);
  hca_ring(hca);
}

struct wire_held *wire_take_known(struct hca_wire *wire) {
  const struct wire_held *held = wire->held;
  while (held && !find(wire, held->path.source)) held = held->next;
  return held ? release(wire, held->path.source) : NULL;
}

void hca_source_free(struct hca *hca, struct hca_ah *ah) {
  struct wire_source *source = (struct wire_source *)ah;
  hca_enter(hca);
  for (struct wire_source **link = list_of(source->wire, ah->path.dgid); *link;
       link = &(*link)->next) {
    if (*link != source) continue;
    *link = source->next;
    break;
  }
  hca_leave(hca);
  free(source);
}

void hca_source_unknown(struct hca *hca, struct hca_wire *wire, const uint8_t *gid) {
  hca_enter(hca);
  struct wire_held *released = release(wire, gid);
  for (struct wire_held *held = released; held; held = held->next) wire->counts.unjudged++;
  hca_leave(hca);
  wire_held_free(released);
}

void wire_sources_end(struct hca_wire *wire) {
  wire_held_free(wire->held);
  free(wire->datagrams);
}
