/* Lists of requests in memory, which the worker runs as part of one request (OP_LIST).
 *
 * The functions that enqueue requests write them to a list instead of a ring if the stream is
 * TSR_LIST_RING. */
#ifndef TSR_LIST_H
#define TSR_LIST_H

#include "base/objects.h"

enum { TSR_LIST_RING = TESSERA_MAX_STREAMS, TSR_MOST_LISTED = 1 << 18 };

struct tsr_list {
  tessera_slot *slots;
  uint32_t count, room;
  bool cooperative; /* it contains a cooperative launch */
};

/* Have the calling thread's requests for TSR_LIST_RING written to a list, or to none (NULL).
 * Returns the list before. */
struct tsr_list *tsr_list_record(struct tsr_list *list);

/* Return the calling thread's list, or NULL. */
struct tsr_list *tsr_list_recording(void);

/* Add a request with its continuation slots; NULL: no memory, or the list is too long. */
tessera_slot *tsr_list_add(struct tsr_list *list, uint16_t opcode, uint32_t continuation_slots);

#endif
