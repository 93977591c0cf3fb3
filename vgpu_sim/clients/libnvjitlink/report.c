/* The error log of a link. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

void state_report(struct nvJitLink *link, const char *format, ...) {
  const size_t used = strlen(link->errors), room = LOG_BYTES - used;
  va_list arguments;
  va_start(arguments, format);
  const int wanted = vsnprintf(link->errors + used, room, format, arguments);
  va_end(arguments);
  const size_t end = used + (wanted > 0 && (size_t)wanted < room ? (size_t)wanted : room - 1);
  if (end + 1 < LOG_BYTES && (end == 0 || link->errors[end - 1] != '\n'))
    memcpy(link->errors + end, "\n", 2);
}
