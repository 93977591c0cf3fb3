/* The generated table of CUresult codes. */
#ifndef TSR_ERROR_TABLE_H
#define TSR_ERROR_TABLE_H

#include <stddef.h>

struct tsr_error {
  int code;
  const char *name;
  const char *text;
};
extern const struct tsr_error tsr_errors[]; /* by code */
extern const size_t tsr_error_count;

#endif
