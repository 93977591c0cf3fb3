/* Refusing an argument of a function that is otherwise supported. */
#ifndef TSR_REFUSE_H
#define TSR_REFUSE_H

#include "driver_types.h"
#include "unsupported.h"

/* Says so once in each place (and ends the program under TESSERA_STRICT=1). */
#define TSR_REFUSE(what)                                          \
  do {                                                            \
    static uint32_t said;                                         \
    tsr_unsupported((what), "CUDA_ERROR_NOT_SUPPORTED", &said);   \
    return CUDA_ERROR_NOT_SUPPORTED;                              \
  } while (0)

#endif
