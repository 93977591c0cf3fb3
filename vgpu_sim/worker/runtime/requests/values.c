/* Values in memory that requests wait for or store. */
#define _GNU_SOURCE
#include "base/internal.h"

/* The place is in live memory, and `tw_chunks_lock` is held. */
static uint64_t load(const tessera_value_body *body) {
  const void *place = (const void *)(uintptr_t)body->address;
  if (body->width_bytes == 4) return __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE);
  return __atomic_load_n((const uint64_t *)place, __ATOMIC_ACQUIRE);
}

/* The table's beginning is in live memory if the place is: chunks begin where tables do. */
static bool is_ended(uint64_t place) {
  const uint64_t table = place / TESSERA_CHUNK_ALIGN_BYTES * TESSERA_CHUNK_ALIGN_BYTES;
  if (!tw_chunks_cover_locked(table, sizeof(tessera_event_table))) return true;
  return __atomic_load_n(&((const tessera_event_table *)(uintptr_t)table)->ended,
                         __ATOMIC_ACQUIRE) != 0;
}

bool tw_event_never(const tessera_value_body *body) {
  if (body->condition != TESSERA_CONDITION_RECORDED) return false;
  const bool ended = is_ended(body->address); /* read first: then all that it has done is seen */
  const uint64_t seen = load(body);
  if ((int64_t)((seen & ~TESSERA_EVENT_LOST) - body->value) >= 0) return false;
  return ended || (seen & TESSERA_EVENT_LOST) != 0;
}

static bool fulfils(const tessera_value_body *body, uint64_t seen) {
  const bool narrow = body->width_bytes == 4;
  const uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX;
  const uint64_t difference = seen - body->value;
  switch (body->condition) {
    case TESSERA_CONDITION_AT_LEAST:
      return narrow ? (int32_t)(uint32_t)difference >= 0 : (int64_t)difference >= 0;
    case TESSERA_CONDITION_EQUAL:
      return (difference & mask) == 0;
    case TESSERA_CONDITION_ANY_BIT:
      return (seen & body->value & mask) != 0;
    case TESSERA_CONDITION_RECORDED:
      return (int64_t)((seen & ~TESSERA_EVENT_LOST) - body->value) >= 0;
    default:
      return (~(seen | body->value) & mask) != 0;
  }
}

bool tw_value_reached(const tessera_slot *slot) {
  if (slot->opcode != TESSERA_OPCODE_AWAIT) return true;
  const tessera_value_body *body = &slot->body.value;
  /* The leader must not wait here for a copy, behind which a change of the chunks waits. */
  if (!tw_chunks_try_lock()) return false;
  const bool live = tw_chunks_cover_locked(body->address, body->width_bytes);
  const bool reached = !live || fulfils(body, load(body)) || tw_event_never(body);
  tw_chunks_unlock();
  return reached; /* a place that is not live any more is a fault when the request runs */
}

void tw_value_store(const tessera_value_body *body) {
  void *place = (void *)(uintptr_t)body->address;
  if (body->width_bytes == 4)
    __atomic_store_n((uint32_t *)place, (uint32_t)body->value, __ATOMIC_RELEASE);
  else
    __atomic_store_n((uint64_t *)place, body->value, __ATOMIC_RELEASE);
}
