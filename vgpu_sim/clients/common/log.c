#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "tessera: "
enum { PREFIX_BYTES = sizeof PREFIX - 1 };

static bool quiet;
static tsr_log_reader *reader;

void tsr_log_silence(bool wanted) { quiet = wanted; }

void tsr_log_copy_to(tsr_log_reader *wanted) { reader = wanted; }

void tsr_log(const char *format, ...) {
  if (quiet && !reader) return;
  char line[TSR_LOG_LINE_BYTES] = PREFIX;
  size_t used = PREFIX_BYTES;
  va_list arguments;
  va_start(arguments, format);
  const int more = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
  va_end(arguments);
  if (more < 0) return;
  used += (size_t)more;
  if (used > sizeof line - 2) used = sizeof line - 2;
  line[used++] = '\n';
  line[used] = '\0';
  /* One write per line, so that lines of several threads do not mix. */
  if (!quiet && write(STDERR_FILENO, line, used) < 0 && !reader) return;
  if (reader) reader(line + PREFIX_BYTES, used - PREFIX_BYTES);
}
