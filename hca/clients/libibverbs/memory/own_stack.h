/* A stack apart, for work that replaces the pages of the thread's own. */
#ifndef TSR_OWN_STACK_H
#define TSR_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Does some work on a stack of its own, with every signal blocked: until it ends nothing else is
 * written to the thread's stack. 0, or an errno value: then the work was not done. */
int tsr_on_own_stack(void (*work)(void *argument), void *argument);

/* Has a stack grow by a page if its lowest mapping, above a hole, begins at `from`: only that
 * mapping grows, and what is put in the place of its pages does not. Elsewhere nothing happens. */
void tsr_keep_growing(uint64_t from);

/* Whether the pages hold what the thread library keeps of the calling thread. */
bool tsr_has_control_block(uint64_t from, uint64_t to);

#endif
