/* Regions of all of a program's memory (implicit on-demand paging). */
#ifndef TSR_IMPLICIT_H
#define TSR_IMPLICIT_H

#include "objects.h"

/* What such a region has registered so far. */
struct tsr_implicit {
  struct tsr_mr *next, *parts; /* linked by next_part */
  void *anchor; /* a page of the library's own, which its key reaches */
};

/* Makes one; NULL with errno set. Callers take turns, by the context's `registering`. */
struct tsr_mr *tsr_implicit_new(struct ibv_pd *pd, unsigned access);
int tsr_implicit_end(struct tsr_mr *mr);
/* Finds the key for a range that a request names by such a region's, and registers it if need be. 0 or
 * an errno value. */
int tsr_implicit_reach(struct tsr_context *context, uint64_t address, uint32_t bytes,
                       uint32_t *key);
/* The same of one region, whose turn the caller has. */
int tsr_implicit_part(struct tsr_mr *mr, uint64_t address, uint32_t bytes, uint32_t *key);

#endif
