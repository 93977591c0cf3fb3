/* Tracing: with TESSERA_TRACE=FILE every call appends one line to FILE. */
#ifndef TSR_TRACE_H
#define TSR_TRACE_H

#include <stdint.h>

extern int tsr_trace_fd; /* -1: off */

void tsr_trace_open(const char *path);

/* `names` lists the arguments, blank-separated: "$name" is a string, "&name" points to a 64-bit
 * and "%name" to a 32-bit result, which are shown when the call
 * succeeded: in every library `status` is 0 then. */
void tsr_trace(const char *function, const char *names, const uint64_t *values, int status,
               uint64_t started_ns);

#endif
