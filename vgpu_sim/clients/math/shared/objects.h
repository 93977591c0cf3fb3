/* Objects that the handles of a mathematical library name: contexts, descriptors, plans.
 *
 * A handle is an address that is looked up in a table and never dereferenced before, so what is
 * no handle, or no longer one, is an error and not a crash. */
#ifndef TSR_OBJECTS_H
#define TSR_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TSR_MAX_OBJECTS = 1 << 20 };

/* Return a new object of so many zero bytes, or NULL without memory or beyond the maximum.
 * `kind` is not 0. */
void *tsr_object_new(uint32_t kind, size_t bytes);

/* Return the object that a handle names, or NULL if it names none of this kind. */
void *tsr_object_find(const void *handle, uint32_t kind);

/* Free an object; false if the handle names none of this kind. */
bool tsr_object_free(const void *handle, uint32_t kind);

#endif
