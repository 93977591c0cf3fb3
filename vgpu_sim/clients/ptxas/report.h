/* Messages in the form of ptxas. */
#pragma once

#include <stdbool.h>

enum { EXIT_FAILED = 255 };

/* "ptxas fatal   : ..." and exit with EXIT_FAILED. */
__attribute__((noreturn, format(printf, 1, 2))) void report_fatal(const char *format, ...);

/* "ptxas warning : ..."; an error under -Werror, and nothing under -w. */
__attribute__((format(printf, 1, 2))) void report_warning(const char *format, ...);

/* "ptxas fatal   : Ptx assembly aborted due to errors", and exit. */
__attribute__((noreturn)) void report_aborted(void);

void report_options(bool no_warnings, bool warnings_are_errors);
