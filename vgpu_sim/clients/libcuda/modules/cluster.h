/* Clusters of launches: their sizes and limits. */
#ifndef TSR_CLUSTER_H
#define TSR_CLUSTER_H

#include "base/objects.h"

enum { TSR_CLUSTER_WHY_BYTES = 160 };

struct tsr_cluster {
  uint32_t size[3]; /* blocks in x, y and z; 1 if there are no clusters */
  bool is_stated;   /* by the launch or the function */
};

/* Find the size of a launch's clusters: `stated` by the launch (zeros: it states none), or that of the
 * function. INVALID_CLUSTER_SIZE: the two differ, the function needs a size and there is none, or the
 * size exceeds a limit; then `why` gets the reason. */
CUresult tsr_cluster_find(const struct tsr_function *function, const uint32_t stated[3],
                          struct tsr_cluster *found, char why[TSR_CLUSTER_WHY_BYTES]);

/* Return a size that has been found for a launch's request: 0 if it is not stated. */
uint16_t tsr_cluster_pack(const struct tsr_cluster *cluster);

/* Return the most blocks of a cluster that a launch of the function may have; 1: no clusters. */
uint32_t tsr_cluster_limit(const struct tsr_function *function);

/* The attributes from CLUSTER_SIZE_MUST_BE_SET on. */
CUresult tsr_cluster_get_attribute(const struct tsr_function *function,
                                   CUfunction_attribute attribute, int *value);
CUresult tsr_cluster_set_attribute(struct tsr_function *function, CUfunction_attribute attribute,
                                   int value);

#endif
