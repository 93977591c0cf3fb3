/* A text that grows to a limit, such as the PTX of a kernel. */
#ifndef TSR_TEXT_H
#define TSR_TEXT_H

#include <stddef.h>

struct tsr_text {
  char *bytes;
  size_t size, used; /* used > size: it does not fit */
};

__attribute__((format(printf, 2, 3))) void tsr_text_put(struct tsr_text *text, const char *format, ...);

#endif
