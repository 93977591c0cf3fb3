/* Views: memory of cuMemCreate that is mapped in reserved addresses. */
#ifndef TSR_VIEWS_H
#define TSR_VIEWS_H

#include "memory/chunk.h"

/* One mapping. `accessible`: the worker has mapped it. */
struct tsr_view {
  uint64_t start, bytes; /* in the reserved range */
  struct tsr_physical *physical;
  bool accessible;
};

/* The mappings of one reserved range, by start; changed under the view lock and the memory lock. */
struct tsr_views {
  struct tsr_views *next;
  uint64_t offset, bytes; /* the reserved range in the aperture */
  size_t count, capacity;
  struct tsr_view *list;
};

extern pthread_mutex_t tsr_view_lock;

/* All reserved ranges; under the view lock. */
extern struct tsr_views *tsr_reserved;

/* Describe the adjacent accessible views of one context around an offset in a reserved chunk;
 * false if there are none. Under the memory lock. */
bool tsr_views_find(const struct tsr_chunk *chunk, uint64_t offset, struct tsr_span *span);

/* Return the reserved range that contains an address, or NULL. */
struct tsr_views *tsr_views_at(uint64_t address);

/* Return the index of the first view that ends after `start`. */
size_t tsr_views_first(const struct tsr_views *views, uint64_t start);

/* Add a mapping, or remove one; false if it overlaps another or there is no memory. */
bool tsr_views_add(struct tsr_views *views, struct tsr_view view);
void tsr_views_remove(struct tsr_views *views, size_t index);

/* Reserve addresses for a device's memory, at `wanted` if it is free there. */
CUresult tsr_views_reserve(const struct tsr_device *device, uint64_t bytes, uint64_t alignment,
                           uint64_t wanted, uint64_t *address);

/* Have the worker map a view and map it in the client, or undo that. */
CUresult tsr_view_open(struct tsr_views *views, struct tsr_view *view);
CUresult tsr_view_shut(struct tsr_views *views, struct tsr_view *view);

/* Forget the memory of a context that ends; handles and mappings of it stay until they are
 * released. */
void tsr_views_drop(struct tsr_context *context);

#endif
