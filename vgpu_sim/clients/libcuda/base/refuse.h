/* Rejection of an unsupported argument of a function that is otherwise supported. */
#ifndef TSR_REFUSE_H
#define TSR_REFUSE_H

#include "driver_types.h"
#include "unsupported.h"

/* Log the rejection, once per call site; under TESSERA_STRICT=1 this ends the program. */
#define TSR_REFUSE(what)                                          \
  do {                                                            \
    static uint32_t said;                                         \
    tsr_unsupported((what), "CUDA_ERROR_NOT_SUPPORTED", &said);   \
    return CUDA_ERROR_NOT_SUPPORTED;                              \
  } while (0)

#endif
