/* Description of an address relative to the program's allocations. */
#ifndef TSR_FAULT_PLACE_H
#define TSR_FAULT_PLACE_H

#include "base/objects.h"

/* Write for example "97 bytes past the end of the allocation of 4000 bytes at 0x7f...". Write
 * nothing if a lock that this takes is held, or if nothing useful is known. */
void tsr_fault_place(struct tsr_context *context, uint64_t address, char *text, size_t room);

#endif
