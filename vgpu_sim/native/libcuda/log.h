/* What the library says by itself, on stderr; TESSERA_LOG=quiet silences it. */
#ifndef TSR_LOG_H
#define TSR_LOG_H

#include "driver_types.h"

__attribute__((format(printf, 1, 2))) void tsr_log(const char *format, ...);

/* Says once per name that it is not supported (and ends the program under TESSERA_STRICT=1). */
CUresult tsr_unsupported(const char *name, uint32_t *said);

/* Same for an argument of a supported function. */
#define TSR_REFUSE(what)                       \
  do {                                         \
    static uint32_t said;                      \
    return tsr_unsupported((what), &said);     \
  } while (0)

#endif
