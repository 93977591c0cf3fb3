#include "memory/slab.h"

#include <stdlib.h>

enum { UNITS = TSR_SLAB_BYTES / TSR_SLAB_UNIT_BYTES };

struct tsr_slab {
  uint32_t used_blocks;
  uint32_t rover;           /* first unit of the block at which the next search begins */
  uint32_t largest_free;    /* upper bound, in units */
  uint16_t first[UNITS];    /* first unit of the block that contains this unit (in used blocks) */
  uint16_t length[UNITS];   /* at a block's first unit, in units */
  uint16_t previous[UNITS]; /* at a block's first unit: first unit of the previous block */
  bool used[UNITS];         /* at a block's first unit */
  uint32_t bytes[UNITS];    /* at a used block's first unit: the requested size */
};

struct tsr_slab *tsr_slab_new(void) {
  struct tsr_slab *slab = calloc(1, sizeof *slab);
  if (!slab) return NULL;
  slab->length[0] = UNITS;
  slab->largest_free = UNITS;
  return slab;
}

void tsr_slab_free(struct tsr_slab *slab) { free(slab); }

bool tsr_slab_empty(const struct tsr_slab *slab) { return slab->used_blocks == 0; }

static void set_length(struct tsr_slab *slab, uint32_t at, uint32_t units) {
  slab->length[at] = (uint16_t)units;
  if (at + units < UNITS) slab->previous[at + units] = (uint16_t)at;
}

static uint32_t next_block(const struct tsr_slab *slab, uint32_t at) {
  const uint32_t next = at + slab->length[at];
  return next < UNITS ? next : 0;
}

static void use(struct tsr_slab *slab, uint32_t at, uint32_t units, uint64_t bytes) {
  const uint32_t rest = slab->length[at] - units;
  if (rest) {
    slab->used[at + units] = false;
    set_length(slab, at, units);
    set_length(slab, at + units, rest);
  }
  slab->used[at] = true;
  slab->bytes[at] = (uint32_t)bytes;
  for (uint32_t i = at; i < at + units; i++) slab->first[i] = (uint16_t)at;
  slab->used_blocks++;
  slab->rover = next_block(slab, at);
}

int64_t tsr_slab_take(struct tsr_slab *slab, uint64_t bytes) {
  const uint32_t units = (uint32_t)((bytes + TSR_SLAB_UNIT_BYTES - 1) / TSR_SLAB_UNIT_BYTES);
  if (units == 0 || units > slab->largest_free) return -1;
  uint32_t at = slab->rover, largest = 0;
  do {
    if (!slab->used[at]) {
      if (slab->length[at] >= units) {
        use(slab, at, units, bytes);
        return (int64_t)at * TSR_SLAB_UNIT_BYTES;
      }
      if (slab->length[at] > largest) largest = slab->length[at];
    }
    at = next_block(slab, at);
  } while (at != slab->rover);
  slab->largest_free = largest;
  return -1;
}

bool tsr_slab_find(const struct tsr_slab *slab, uint64_t offset, uint64_t *start, uint64_t *bytes) {
  const uint32_t unit = (uint32_t)(offset / TSR_SLAB_UNIT_BYTES);
  const uint32_t first = slab->first[unit];
  /* In free units `first` is stale, so the block found must be in use and extend to this unit. */
  if (!slab->used[first] || unit < first || unit >= (uint32_t)first + slab->length[first])
    return false;
  *start = (uint64_t)first * TSR_SLAB_UNIT_BYTES;
  *bytes = slab->bytes[first];
  return true;
}

void tsr_slab_resize(struct tsr_slab *slab, uint64_t offset, uint64_t bytes) {
  slab->bytes[offset / TSR_SLAB_UNIT_BYTES] = (uint32_t)bytes;
}

bool tsr_slab_give(struct tsr_slab *slab, uint64_t offset) {
  uint64_t start, bytes;
  if (!tsr_slab_find(slab, offset, &start, &bytes) || start != offset) return false;
  uint32_t at = (uint32_t)(offset / TSR_SLAB_UNIT_BYTES);
  slab->used[at] = false;
  slab->used_blocks--;
  const uint32_t next = at + slab->length[at];
  if (next < UNITS && !slab->used[next])
    set_length(slab, at, slab->length[at] + slab->length[next]);
  if (at > 0 && !slab->used[slab->previous[at]]) {
    const uint32_t before = slab->previous[at];
    set_length(slab, before, slab->length[before] + slab->length[at]);
    at = before;
  }
  if (slab->length[at] > slab->largest_free) slab->largest_free = slab->length[at];
  /* The rover may point into a block that has just been merged. */
  if (slab->rover > at && slab->rover < (uint32_t)at + slab->length[at]) slab->rover = at;
  return true;
}

void tsr_slab_each(const struct tsr_slab *slab,
                   void (*visit)(uint64_t start, uint64_t bytes, void *state), void *state) {
  uint32_t at = 0;
  do {
    if (slab->used[at]) visit((uint64_t)at * TSR_SLAB_UNIT_BYTES, slab->bytes[at], state);
    at = next_block(slab, at);
  } while (at != 0);
}
