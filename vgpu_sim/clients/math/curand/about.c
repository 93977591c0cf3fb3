/* What cuRAND says of itself. Generators are refused when they are created. */
#include "api.h"

curandStatus_t tsr_curandGetVersion(int *version) {
  if (!version) return CURAND_STATUS_OUT_OF_RANGE;
  const struct tsr_version own = TSR_RAND_VERSION;
  *version = own.major * 1000 + own.minor * 100 + own.patch;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t tsr_curandGetProperty(int type, int *value) {
  if (!value || tsr_version_part(TSR_RAND_VERSION, type) < 0) return CURAND_STATUS_OUT_OF_RANGE;
  *value = tsr_version_part(TSR_RAND_VERSION, type);
  return CURAND_STATUS_SUCCESS;
}
