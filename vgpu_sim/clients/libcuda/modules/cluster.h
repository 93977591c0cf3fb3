/* Clusters of launches: their sizes and limits. */
#ifndef TSR_CLUSTER_H
#define TSR_CLUSTER_H

#include "base/objects.h"

/* Find the size of a launch's clusters: `stated` by the launch (zeros: it states none), or that of the
 * function. INVALID_CLUSTER_SIZE: the two differ, the function needs a size and there is none, or the
 * size exceeds a limit. `size` is 1 in each axis if there are no clusters. `why` gets the reason, with
 * `%u` for the number of blocks. */
CUresult tsr_cluster_find(const struct tsr_function *function, const uint32_t stated[3],
                          uint32_t size[3], const char **why);

/* Return the size for a launch's request: 0 if neither launch nor function states one. */
uint16_t tsr_cluster_pack(const struct tsr_function *function, const uint32_t stated[3]);

/* Return the most blocks of a cluster that a launch of the function may have; 1: no clusters. */
uint32_t tsr_cluster_limit(const struct tsr_function *function);

/* The attributes from CLUSTER_SIZE_MUST_BE_SET on. */
CUresult tsr_cluster_get_attribute(const struct tsr_function *function,
                                   CUfunction_attribute attribute, int *value);
CUresult tsr_cluster_set_attribute(struct tsr_function *function, CUfunction_attribute attribute,
                                   int value);

#endif
