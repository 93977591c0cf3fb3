/* A separate stack for code that replaces the pages of the thread's own stack. */
#ifndef TSR_OWN_STACK_H
#define TSR_OWN_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Run `work` on a separate stack, with every signal blocked, so that nothing else writes to the
 * thread's stack until `work` ends. 0, or an errno value: then `work` did not run. */
int tsr_on_own_stack(void (*work)(void *argument), void *argument);

/* Make a stack grow by a page, if its lowest mapping, above a hole, begins at `from`. Only that
 * mapping can grow; pages that replace it cannot. For any other `from` this has no effect. */
void tsr_keep_growing(uint64_t from);

/* Whether the range contains the thread library's control block of the calling thread. */
bool tsr_has_control_block(uint64_t from, uint64_t to);

#endif
