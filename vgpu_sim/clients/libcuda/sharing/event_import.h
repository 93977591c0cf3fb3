/* Tables of interprocess events that contexts of this process have opened. */
#ifndef TSR_EVENT_IMPORT_H
#define TSR_EVENT_IMPORT_H

#include "exchange/share.h"

/* Open the table with this name in a context, and count its users; returns its address. */
CUresult tsr_event_import(struct tsr_context *context, const tessera_shared_memory *name,
                          uint64_t *address);

/* End one use. The last one closes the table once the work that the context has now is done. */
void tsr_event_unimport(uint64_t context_handle, uint64_t address);

#endif
