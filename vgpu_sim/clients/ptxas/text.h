/* The PTX text: reading it, and the checks that need no compiler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text {
  const char *name; /* as messages have it */
  char *data;       /* up to the first NUL; data[bytes] is NUL */
  size_t bytes;
};

/* Read the text from a file ("-": standard input), or take `string`. A file that cannot be read
   ends the program. */
void text_read(struct text *text, const char *path, const char *string);

/* Check that the text begins with .version and has a .target that an architecture such as
   "sm_90a" runs; a mistake ends the program. */
void text_check(const struct text *text, const char *architecture);
