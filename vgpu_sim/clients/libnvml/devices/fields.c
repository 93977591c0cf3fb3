/* nvmlDeviceGetFieldValues: each field has its own status. */
#define _GNU_SOURCE
#include <string.h>

#include "view/answer.h"
#include "api.h"

enum {
  FIELD_ECC_CURRENT = 1,
  FIELD_ECC_PENDING = 2,
  FIELD_ECC_SBE_VOLATILE = 3,
  FIELD_ECC_DBE_VOLATILE = 4,
  FIELD_ECC_SBE_AGGREGATE = 5,
  FIELD_ECC_DBE_AGGREGATE = 6,
  FIELD_MEMORY_TEMPERATURE = 82,
  FIELD_TOTAL_ENERGY = 83,
  FIELD_REMAPPED_COR = 142,
  FIELD_REMAPPED_UNC = 143,
  FIELD_REMAPPED_PENDING = 144,
  FIELD_REMAPPED_FAILURE = 145,
  FIELD_POWER_AVERAGE = 185,
  FIELD_POWER_INSTANT = 186,
  FIELD_POWER_DEFAULT_LIMIT = 189,
  FIELD_POWER_CURRENT_LIMIT = 190,
  VALUE_UNSIGNED_INT = 1,
  VALUE_UNSIGNED_LONG_LONG = 3,
};

static void number(nvmlFieldValue_t *field, unsigned int value) {
  field->valueType = VALUE_UNSIGNED_INT;
  field->value.uiVal = value;
}

static void count(nvmlFieldValue_t *field, unsigned long long value) {
  field->valueType = VALUE_UNSIGNED_LONG_LONG;
  field->value.ullVal = value;
}

static void answer(nvmlFieldValue_t *field, const tessera_telemetry_record *its) {
  field->nvmlReturn = NVML_SUCCESS;
  switch (field->fieldId) {
    case FIELD_ECC_CURRENT:
    case FIELD_ECC_PENDING: number(field, NVML_FEATURE_ENABLED); break;
    case FIELD_ECC_SBE_VOLATILE: count(field, its->ecc_volatile[0]); break;
    case FIELD_ECC_DBE_VOLATILE: count(field, its->ecc_volatile[1]); break;
    case FIELD_ECC_SBE_AGGREGATE: count(field, its->ecc_aggregate[0]); break;
    case FIELD_ECC_DBE_AGGREGATE: count(field, its->ecc_aggregate[1]); break;
    case FIELD_MEMORY_TEMPERATURE: number(field, its->memory_temperature_c); break;
    case FIELD_TOTAL_ENERGY: count(field, its->energy_mj); break;
    case FIELD_REMAPPED_COR: number(field, 0); break;
    case FIELD_REMAPPED_UNC: number(field, its->remapped_rows); break;
    case FIELD_REMAPPED_PENDING: number(field, its->pending_rows != 0); break;
    case FIELD_REMAPPED_FAILURE: number(field, its->remapping_failed); break;
    case FIELD_POWER_AVERAGE:
    case FIELD_POWER_INSTANT: number(field, its->power_mw); break;
    case FIELD_POWER_DEFAULT_LIMIT:
    case FIELD_POWER_CURRENT_LIMIT: number(field, its->power_limit_mw); break;
    default: field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  }
}

nvmlReturn_t tsr_nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
                                          nvmlFieldValue_t *values) {
  struct tsr_device found;
  const nvmlReturn_t result = tsr_gpu(device, TSR_SAMPLED, &found);
  if (valuesCount <= 0 || !values) return NVML_ERROR_INVALID_ARGUMENT;
  if (result != NVML_SUCCESS) return result;
  for (int i = 0; i < valuesCount; i++) {
    values[i].timestamp = (long long)tsr_wall_us();
    values[i].latencyUsec = 0;
    answer(&values[i], &found.gpu.telemetry);
  }
  return NVML_SUCCESS;
}
