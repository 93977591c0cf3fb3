/* Sockets on which gpud is queried: the management socket, or those of the slices held here. */
#ifndef TSR_SOURCES_H
#define TSR_SOURCES_H

#include "slices.h"
#include "view/view.h"

struct tsr_sources {
  bool node; /* query the management socket */
  const char *management;
  int count;
  struct tsr_slice_name names[TSR_MAX_SLICES];
};

/* Look for TESSERA_MANAGEMENT_SOCKET, then for slices, then for the socket of the node's gpud. */
void tsr_sources_find(struct tsr_sources *sources);

/* Query all sources and join their reports. DRIVER_NOT_LOADED or TIMEOUT: there was no reply; `*absent`
 * is then a socket whose gpud may be restarting, or NULL. The caller holds the view. */
nvmlReturn_t tsr_sources_ask(const struct tsr_sources *sources, struct tsr_view *view,
                             const char **absent);

void tsr_view_free(struct tsr_view *view);

#endif
