/* Replacement of pages of the process, with their content, while other threads use them. */
#ifndef TSR_HOST_PAGES_H
#define TSR_HOST_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Copy private pages to the shared memory that is mapped at `shared`, and map that memory in their
 * place. Other threads that access the pages meanwhile wait, if userfaultfd(2) is available; else
 * what they write during the call may be lost. Uses no heap memory, which may be in the pages. */
bool tsr_pages_share(uint64_t begin, uint64_t bytes, uint64_t shared);

/* Replace shared pages by private pages with the same content. */
bool tsr_pages_make_private(uint64_t begin, uint64_t bytes);

#endif
