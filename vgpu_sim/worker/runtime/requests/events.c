/* Tables of interprocess events, when a context that uses one has ended. */
#define _GNU_SOURCE
#include <errno.h>

#include "base/internal.h"

/* Only the owner thread changes the chunks, so that thread reads them without the lock. */
static tessera_event_table *table_at(uint64_t offset) {
  const uint64_t address = tw.aperture_base + offset;
  if (offset % TESSERA_CHUNK_ALIGN_BYTES != 0 || offset > TESSERA_APERTURE_BYTES ||
      !tw_chunks_cover_locked(address, sizeof(tessera_event_table)))
    return NULL;
  return (tessera_event_table *)(uintptr_t)address;
}

int tessera_worker_end_events(uint64_t offset) {
  tessera_event_table *table = table_at(offset);
  if (table == NULL) return -ENOENT;
  __atomic_store_n(&table->ended, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void lose_records(tessera_event_state *state, uint64_t participant) {
  for (uint32_t i = 0; i < TESSERA_EVENT_RECORDS; i++) {
    tessera_event_record *record = &state->records[i];
    const uint64_t claimed = __atomic_load_n(&record->claimed, __ATOMIC_SEQ_CST);
    const uint64_t number = claimed >> TESSERA_EVENT_NUMBER_SHIFT;
    if ((claimed & ((1u << TESSERA_EVENT_NUMBER_SHIFT) - 1)) != participant) continue;
    if (__atomic_load_n(&record->done, __ATOMIC_SEQ_CST) != number)
      __atomic_fetch_or(&record->done, TESSERA_EVENT_LOST, __ATOMIC_SEQ_CST);
  }
}

/* A client that claims a record looks for its participant afterwards. So either the record is seen
 * here, or the client sees the mark. */
int tessera_worker_end_participant(uint64_t offset, uint64_t participant) {
  tessera_event_table *table = table_at(offset);
  if (table == NULL) return -ENOENT;
  for (uint32_t i = 1; i < TESSERA_EVENT_PARTICIPANTS; i++) {
    uint64_t *const place = &table->participants[i];
    if (participant == 0 || __atomic_load_n(place, __ATOMIC_SEQ_CST) != participant) continue;
    __atomic_store_n(place, TESSERA_EVENT_ENDED, __ATOMIC_SEQ_CST);
    for (uint32_t j = 0; j < TESSERA_EVENT_STATES; j++) lose_records(&table->states[j], i);
    __atomic_store_n(place, 0, __ATOMIC_SEQ_CST);
  }
  return 0;
}
