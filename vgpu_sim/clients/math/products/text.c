#include "text.h"

#include <stdarg.h>
#include <stdio.h>

void tsr_text_put(struct tsr_text *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const size_t left = text->used < text->size ? text->size - text->used : 0;
  const int wanted = vsnprintf(left ? text->bytes + text->used : NULL, left, format, values);
  va_end(values);
  text->used += wanted > 0 ? (size_t)wanted : 0;
}
