/* Tracing: with TESSERA_TRACE=FILE every call appends one line to FILE. */
#ifndef TSR_TRACE_H
#define TSR_TRACE_H

#include <stdint.h>

extern int tsr_trace_fd; /* -1: off */

void tsr_trace_open(const char *path);

/* Append one call. `names` lists the arguments, separated by blanks: "$name" is a string;
 * "&name" points to a 64-bit result and "%name" to a 32-bit result. Results are printed if the
 * call succeeded, which in every library means that `status` is 0. */
void tsr_trace(const char *function, const char *names, const uint64_t *values, int status,
               uint64_t started_ns);

#endif
