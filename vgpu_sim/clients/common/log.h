/* The library's own messages on stderr. */
#ifndef TSR_LOG_H
#define TSR_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum { TSR_LOG_LINE_BYTES = 1024 };

__attribute__((format(printf, 1, 2))) void tsr_log(const char *format, ...);

/* Whether tsr_log prints nothing (TESSERA_LOG=quiet). */
void tsr_log_silence(bool wanted);

/* A function that also receives each message, which ends with a newline and a NUL; `bytes` does not
 * count the NUL. */
typedef void tsr_log_reader(char *message, size_t bytes);

/* Pass messages to a function as well; to be called before there are threads. */
void tsr_log_copy_to(tsr_log_reader *reader);

#endif
