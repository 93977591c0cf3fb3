#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config.h"

void tsr_log(const char *format, ...) {
  if (tsr_config()->quiet) return;
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
  /* One write, so that lines of several threads do not mix. */
  if (write(STDERR_FILENO, line, (size_t)used) < 0) return;
}

CUresult tsr_unsupported(const char *name, uint32_t *said) {
  if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) == 0)
    tsr_log("%s is not supported (CUDA_ERROR_NOT_SUPPORTED)", name);
  if (tsr_config()->strict) {
    tsr_log("%s was called and TESSERA_STRICT is set: ending the program", name);
    abort();
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}
