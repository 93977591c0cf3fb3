/* Releases that must wait for work of a context without a thread that waits. */
#ifndef TSR_LATER_H
#define TSR_LATER_H

#include "base/objects.h"

/* Call `release` once all work that the context (a handle) has now is done: at once if it is, or
 * if the context has failed or ended. Else `notify` is called on a thread of the library when it
 * is, and should make a thread that may call `release` call tsr_later_sweep. */
void tsr_later(uint64_t context, void (*release)(void *), void *data, void (*notify)(void));

/* Release what is due. */
void tsr_later_sweep(void);

#endif
