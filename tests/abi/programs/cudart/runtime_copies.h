/* What describes copies with attributes: cudaMemcpyAttributes and cudaMemcpy3DBatchOp. */
#ifndef RUNTIME_COPIES_H
#define RUNTIME_COPIES_H

#include "runtime_checked.h"

struct copy_attributes {
  int order; /* of the copy's accesses to its source */
  struct cudaMemLocation hints[2];
  unsigned flags;
};

struct copy_side {
  int type; /* 1: a pointer, and the lengths of its rows and layers */
  struct {
    void *pointer;
    size_t row, layer;
    struct cudaMemLocation hint;
  };
};

struct copy_region {
  struct copy_side source, target;
  struct cudaExtent extent;
  int order;
  unsigned flags;
};

#endif
