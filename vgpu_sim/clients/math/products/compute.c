#include "compute.h"

#include "product.h"

/* cublasComputeType_t */
enum { COMPUTE_16F = 64, COMPUTE_16F_PEDANTIC = 65, COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69,
       COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71, COMPUTE_32F_FAST_FIRST = 74,
       COMPUTE_32F_FAST_LAST = 77 };

int tsr_scale_type_of(int compute) {
  switch (compute) {
    case COMPUTE_16F:
    case COMPUTE_16F_PEDANTIC: return TSR_F16;
    case COMPUTE_64F:
    case COMPUTE_64F_PEDANTIC: return TSR_F64;
    case COMPUTE_32F:
    case COMPUTE_32F_PEDANTIC: return TSR_F32;
    default:
      return compute >= COMPUTE_32F_FAST_FIRST && compute <= COMPUTE_32F_FAST_LAST ? TSR_F32 : -1;
  }
}
