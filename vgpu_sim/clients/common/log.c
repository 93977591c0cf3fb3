#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool quiet;

void tsr_log_silence(bool wanted) { quiet = wanted; }

void tsr_log(const char *format, ...) {
  if (quiet) return;
  char line[1024];
  int used = snprintf(line, sizeof line, "tessera: ");
  va_list arguments;
  va_start(arguments, format);
  const int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used += more;
  if (used > (int)sizeof line - 2) used = (int)sizeof line - 2;
  line[used++] = '\n';
  /* One write per line, so that lines of several threads do not mix. */
  if (write(STDERR_FILENO, line, (size_t)used) < 0) return;
}
