/* Memory of the program that is registered: its pages are pinned memory of a context, mapped in the
 * program's place as well. */
#ifndef TSR_REGISTERED_H
#define TSR_REGISTERED_H

#include "memory/memory.h"

/* Register memory of the program with a context. */
CUresult tsr_registered_add(struct tsr_context *context, uint64_t begin, uint64_t bytes,
                            uint32_t flags);

/* End the registration that begins at `begin`; the memory keeps its content. */
CUresult tsr_registered_remove(uint64_t begin);

/* Find the registration that contains an address of the program, or of the device. `span->address`
 * is the device's address, `span->alias` the program's. */
bool tsr_registered_find(uint64_t address, struct tsr_span *span);

/* End the registrations of a context that is closed. */
void tsr_registered_drop(const struct tsr_context *context);

/* Around fork(2): the child gets copies of its own, and the parent waits until it has them. */
void tsr_registered_before_fork(void);
void tsr_registered_in_parent(void);
void tsr_registered_in_child(void);

#endif
