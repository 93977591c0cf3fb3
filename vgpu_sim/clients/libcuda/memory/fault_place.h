/* Where an address lies from what the program has allocated. */
#ifndef TSR_FAULT_PLACE_H
#define TSR_FAULT_PLACE_H

#include "base/objects.h"

/* Writes e.g. "97 bytes past the end of the allocation of 4000 bytes at 0x7f..."; nothing where the
 * locks that this takes are held, or nothing useful is known. */
void tsr_fault_place(struct tsr_context *context, uint64_t address, char *text, size_t room);

#endif
