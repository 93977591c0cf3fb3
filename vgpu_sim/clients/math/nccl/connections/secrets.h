/* Random bytes, their comparison and their removal. */
#ifndef TSR_NCCL_SECRETS_H
#define TSR_NCCL_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

/* Fill memory with random bytes of the kernel. */
bool tsr_fill_random(void *bytes, size_t size);

/* Compare all bytes, in a time that does not depend on where they differ. */
bool tsr_is_equal(const void *first, const void *second, size_t size);

/* Set memory to zero, also if it is not read again. */
void tsr_wipe(void *bytes, size_t size);

#endif
