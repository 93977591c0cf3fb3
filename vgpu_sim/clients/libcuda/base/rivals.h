/* NVIDIA's libraries that a program has loaded although Tessera has one of the same name. */
#ifndef TSR_RIVALS_H
#define TSR_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

struct dl_phdr_info; /* of <link.h> */

enum { TSR_MAX_PATH_BYTES = 4096 };

struct tsr_rival {
  char path[TSR_MAX_PATH_BYTES];    /* of NVIDIA's library */
  char preload[TSR_MAX_PATH_BYTES]; /* of Tessera's library that loads all others first */
  int major;                        /* of CUDA, 12 or 13 */
  bool is_preloaded;                /* preload is loaded, and NVIDIA's library was named by its path */
};

/* Whether a loaded library contains an address of the process. */
bool tsr_library_contains(const struct dl_phdr_info *library, uintptr_t address);

/* Find one such library; false if there is none. */
bool tsr_find_rival(struct tsr_rival *rival);

#endif
