/* Implicit on-demand paging: regions of a program's whole address space. */
#ifndef TSR_IMPLICIT_H
#define TSR_IMPLICIT_H

#include "objects.h"

/* The parts that such a region has registered so far. */
struct tsr_implicit {
  struct tsr_mr *next, *parts; /* list linked by next_part */
  void *anchor; /* a page owned by the library, to which the region's key refers */
};

/* Make an implicit region; NULL with errno set. The caller holds the context's `registering`. */
struct tsr_mr *tsr_implicit_new(struct ibv_pd *pd, unsigned access);
int tsr_implicit_end(struct tsr_mr *mr);
/* Return the key for a range that a request names with an implicit region's key, registering the
 * range if needed. 0 or an errno value. */
int tsr_implicit_reach(struct tsr_context *context, uint64_t address, uint32_t bytes,
                       uint32_t *key);
/* The same for one region. The caller holds `registering`. */
int tsr_implicit_part(struct tsr_mr *mr, uint64_t address, uint32_t bytes, uint32_t *key);

#endif
