/* The state of a link. A program calls the functions of one handle from one thread at a time. */
#pragma once

#include <stdbool.h>

#include "types.h"

enum { LOG_BYTES = 1 << 16 };

struct input {
  nvJitLinkInputType type; /* never NVJITLINK_INPUT_ANY */
  char *name;
  uint8_t *data;
  size_t bytes;
};

struct nvJitLink {
  unsigned max_registers; /* 0: no limit */
  bool wants_ptx;         /* -lto -ptx */
  struct input *inputs;
  size_t input_count;
  uint8_t *linked;
  size_t linked_bytes;
  char errors[LOG_BYTES], information[LOG_BYTES]; /* texts */
};

/* Append a line to the error log. */
__attribute__((format(printf, 2, 3))) void state_report(struct nvJitLink *link, const char *format,
                                                        ...);

/* Read the options into a new link. */
nvJitLinkResult options_read(struct nvJitLink *link, uint32_t count, const char *const *options);

/* Copy an input, after its type is checked. */
nvJitLinkResult inputs_add(struct nvJitLink *link, nvJitLinkInputType type, const void *data,
                           size_t bytes, const char *name);
nvJitLinkResult inputs_add_file(struct nvJitLink *link, nvJitLinkInputType type, const char *path);
void inputs_free(struct nvJitLink *link);

/* Have the driver link all inputs. */
nvJitLinkResult driver_link(struct nvJitLink *link);
