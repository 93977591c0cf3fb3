/* rdma_create_event_channel, rdma_destroy_event_channel. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api.h"
#include "ids.h"

struct rdma_event_channel *tsr_rdma_create_event_channel(void) {
  struct tsr_channel *channel = calloc(1, sizeof *channel);
  if (!channel) return NULL;
  tessera_hca_handle made = {0};
  const int error = tsr_cm_ask(TESSERA_CM_MESSAGE_CHANNEL_CREATE, NULL, 0, &made, sizeof made,
                               &channel->rdma.fd);
  channel->handle = made.handle;
  if (error == 0) return &channel->rdma;
  free(channel);
  errno = error;
  return NULL;
}

void tsr_rdma_destroy_event_channel(struct rdma_event_channel *rdma) {
  struct tsr_channel *channel = (struct tsr_channel *)rdma;
  tsr_cm_ask_handle(TESSERA_CM_MESSAGE_CHANNEL_DESTROY, channel->handle);
  close(rdma->fd);
  free(channel);
}
