/* The generated table of a library's status codes. */
#ifndef TSR_STATUS_TABLE_H
#define TSR_STATUS_TABLE_H

#include <stddef.h>

struct tsr_status {
  int code;
  const char *name;
  const char *text;
};
extern const struct tsr_status tsr_statuses[]; /* by code */
extern const size_t tsr_status_count;

#endif
