/* Where gpud is asked: its management socket, or the sockets of the slices that are held here. */
#ifndef TSR_SOURCES_H
#define TSR_SOURCES_H

#include "slices.h"
#include "view/view.h"

struct tsr_sources {
  bool node; /* ask at `management` */
  const char *management;
  int count;
  struct tsr_slice_name names[TSR_MAX_SLICES];
};

/* Looks at TESSERA_MANAGEMENT_SOCKET, then for slices, then for a node's gpud. */
void tsr_sources_find(struct tsr_sources *sources);

/* Asks all of them and joins what they say. DRIVER_NOT_LOADED where nobody answers; `*absent` is
 * then a socket whose gpud may be being restarted, or NULL. Callers take turns. */
nvmlReturn_t tsr_sources_ask(const struct tsr_sources *sources, struct tsr_view *view,
                             const char **absent);

void tsr_view_free(struct tsr_view *view);

#endif
