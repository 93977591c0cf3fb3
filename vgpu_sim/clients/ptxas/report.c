#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool silent, strict;

void report_options(bool no_warnings, bool warnings_are_errors) {
  silent = no_warnings;
  strict = warnings_are_errors;
}

static void print(const char *severity, const char *format, va_list arguments) {
  fprintf(stderr, "ptxas %s: ", severity);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

void report_fatal(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print("fatal   ", format, arguments);
  va_end(arguments);
  exit(EXIT_FAILED);
}

void report_aborted(void) { report_fatal("Ptx assembly aborted due to errors"); }

void report_warning(const char *format, ...) {
  if (silent && !strict) return;
  va_list arguments;
  va_start(arguments, format);
  print(strict ? "error   " : "warning ", format, arguments);
  va_end(arguments);
  if (strict) report_aborted();
}
