/* The tables of interprocess events that this process uses: its contexts' own ones, and those of
 * other processes that it has opened. Their layout is in hal/compute/event_table.py.
 *
 * Other processes write the tables, and a table goes with its context. So each access is under a
 * lock of this module, finds the table again, and bounds what it reads. */
#ifndef TSR_EVENT_TABLE_H
#define TSR_EVENT_TABLE_H

#include "base/objects.h"

/* An event of a table. */
struct tsr_event_place {
  uint64_t table; /* address; 0: none */
  uint64_t table_id;
  uint32_t index;
  uint64_t generation;
};

/* A record of an event, or none. */
struct tsr_event_record {
  uint64_t word; /* as EventState.latest; 0: the event was not recorded */
  uint64_t done; /* address of EventRecord.done, which becomes the number */
  uint64_t number;
};

enum tsr_record_state { TSR_RECORD_DONE, TSR_RECORD_PENDING, TSR_RECORD_NEVER };

/* Find a place for a new event in the context's own table, which is made if need be. */
CUresult tsr_event_place_new(struct tsr_context *context, struct tsr_event_place *place);

/* Give back the place of an event that its maker destroys. */
void tsr_event_place_give(const struct tsr_event_place *place);

/* Enter a table that the context has opened, under a random number of its own. */
CUresult tsr_event_table_enter(struct tsr_context *context, uint64_t address, uint64_t participant);

/* Forget a table that is about to be unmapped, or those of a context that has ended. */
void tsr_event_table_leave(uint64_t address);
void tsr_event_tables_drop(const struct tsr_context *context);

/* Find an event of a table that this process has entered; INVALID_HANDLE: it was destroyed. */
CUresult tsr_event_place_at(uint64_t table, uint32_t index, uint64_t generation,
                            struct tsr_event_place *place);

/* Take a record for a request that is being written. With `again`, the ring's order puts the
 * request after that record of this process, whose place may be used again. */
CUresult tsr_event_claim(const struct tsr_event_place *place, const struct tsr_event_record *again,
                         struct tsr_event_record *record);

/* Make a record the latest one. */
CUresult tsr_event_publish(const struct tsr_event_place *place,
                           const struct tsr_event_record *record);

/* Return the latest record, and how it stands. */
CUresult tsr_event_look(const struct tsr_event_place *place, struct tsr_event_record *record,
                        enum tsr_record_state *state);

/* Return how a record stands. */
CUresult tsr_event_look_again(const struct tsr_event_place *place,
                              const struct tsr_event_record *record,
                              enum tsr_record_state *state);

#endif
