/* The library's own messages on stderr. */
#ifndef TSR_LOG_H
#define TSR_LOG_H

#include <stdbool.h>

__attribute__((format(printf, 1, 2))) void tsr_log(const char *format, ...);

/* Whether tsr_log is silent (TESSERA_LOG=quiet). */
void tsr_log_silence(bool wanted);

#endif
