/* What descriptors of cuBLASLt describe, as a product. */
#ifndef TSR_CUBLASLT_PLAN_H
#define TSR_CUBLASLT_PLAN_H

#include "cublaslt_types.h"
#include "product.h"

/* A product without addresses of matrices and without scales, which are read as the mode says. */
struct tsr_plan {
  struct tsr_product product;
  struct tsr_product_types types;
  bool has_device_scales;
};

struct tsr_layouts {
  cublasLtMatrixLayout_t a, b, c, d;
};

/* Plan a product. What is not supported is named on stderr, once. */
cublasStatus_t tsr_plan_make(cublasLtMatmulDesc_t operation, struct tsr_layouts layouts,
                             struct tsr_plan *plan);

/* Whether all these types belong together. */
bool tsr_plan_has_types(int compute, int scale, const int *types);

#endif
