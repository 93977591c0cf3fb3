/* The generated table for cuGetProcAddress. */
#ifndef TSR_RESOLVER_H
#define TSR_RESOLVER_H

#include <stddef.h>

struct tsr_symbol {
  const char *name;
  void (*address)(void);
  int since;
  int per_thread;
};
extern const struct tsr_symbol tsr_symbols[]; /* sorted by name, per_thread, since */
extern const size_t tsr_symbol_count;

#endif
