#include "exchange/list.h"

#include <stdlib.h>
#include <string.h>

static __thread struct tsr_list *recording;

struct tsr_list *tsr_list_record(struct tsr_list *list) {
  struct tsr_list *before = recording;
  recording = list;
  return before;
}

struct tsr_list *tsr_list_recording(void) { return recording; }

tessera_slot *tsr_list_add(struct tsr_list *list, uint16_t opcode, uint32_t continuation_slots) {
  const uint32_t count = list->count + 1 + continuation_slots;
  if (count > TSR_MOST_LISTED) return NULL;
  if (count > list->room) {
    const uint32_t room = count < 16 ? 16 : 2 * count;
    tessera_slot *slots = realloc(list->slots, room * sizeof *slots);
    if (!slots) return NULL;
    list->slots = slots;
    list->room = room;
  }
  tessera_slot *slot = &list->slots[list->count];
  memset(slot, 0, (1 + continuation_slots) * sizeof *slot);
  slot->opcode = opcode;
  slot->continuation_slots = (uint8_t)continuation_slots;
  list->count = count;
  return slot;
}
