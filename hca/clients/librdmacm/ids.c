/* Ids: rdma_create_id, rdma_migrate_id, rdma_destroy_id, and their options. */
#include "ids.h"

#include <errno.h>
#include <stdlib.h>

#include "api.h"

int tsr_rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **made, void *context,
                       int space) {
  struct rdma_event_channel *own = NULL;
  if (!channel) {
    channel = own = tsr_rdma_create_event_channel();
    if (!channel) return -1;
  }
  const tessera_cm_id_create wanted = {.channel = ((struct tsr_channel *)channel)->handle,
                                       .port_space = (uint32_t)space};
  tessera_hca_handle handle = {0};
  int error = tsr_cm_ask(TESSERA_CM_MESSAGE_ID_CREATE, &wanted, sizeof wanted, &handle,
                         sizeof handle, NULL);
  if (error == 0) {
    struct tsr_id *id = tsr_id_new(handle.handle, channel, context, space);
    if (id) {
      id->sync = own != NULL;
      tsr_id_add(id);
      *made = &id->rdma;
      return 0;
    }
    error = ENOMEM;
    tsr_cm_ask_handle(TESSERA_CM_MESSAGE_ID_DESTROY, handle.handle);
  }
  if (own) tsr_rdma_destroy_event_channel(own);
  return tsr_cm_result(error);
}

int tsr_rdma_destroy_id(struct rdma_cm_id *rdma) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  const int error = tsr_cm_ask_handle(TESSERA_CM_MESSAGE_ID_DESTROY, id->handle);
  if (error != 0 && error != EIO) return tsr_cm_result(error);
  tsr_id_remove(id);
  tsr_groups_leave(id);
  if (rdma->event) tsr_rdma_ack_cm_event(rdma->event);
  tsr_id_wait_acknowledged(id);
  if (id->sync) tsr_rdma_destroy_event_channel(rdma->channel);
  free(id->init);
  free(id);
  return 0;
}

int tsr_rdma_migrate_id(struct rdma_cm_id *rdma, struct rdma_event_channel *channel) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  struct rdma_event_channel *own = NULL, *before = id->sync ? rdma->channel : NULL;
  if (id->sync && !channel) return tsr_cm_result(EINVAL);
  if (!channel) {
    channel = own = tsr_rdma_create_event_channel();
    if (!channel) return -1;
  }
  const tessera_cm_pair wanted = {.handle = id->handle,
                                  .value = ((struct tsr_channel *)channel)->handle};
  const int error =
      tsr_cm_ask(TESSERA_CM_MESSAGE_MIGRATE, &wanted, sizeof wanted, NULL, 0, NULL);
  if (error != 0) {
    if (own) tsr_rdma_destroy_event_channel(own);
    return tsr_cm_result(error);
  }
  if (before && rdma->event) {
    tsr_rdma_ack_cm_event(rdma->event);
    rdma->event = NULL;
  }
  rdma->channel = channel;
  id->sync = own != NULL;
  tsr_id_wait_acknowledged(id);
  if (before) tsr_rdma_destroy_event_channel(before);
  return 0;
}

int tsr_rdma_set_option(struct rdma_cm_id *rdma, int level, int name, void *value, size_t bytes) {
  struct tsr_id *id = (struct tsr_id *)rdma;
  if (level == RDMA_OPTION_IB) return tsr_cm_result(EOPNOTSUPP); /* there are no path records */
  const bool is_byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (level != RDMA_OPTION_ID || name < 0 || name > RDMA_OPTION_ID_ACK_TIMEOUT)
    return tsr_cm_result(ENOSYS);
  if (bytes != (is_byte ? 1 : sizeof(int))) return tsr_cm_result(EINVAL);
  switch (name) {
    case RDMA_OPTION_ID_TOS: id->traffic_class = *(const uint8_t *)value; break;
    case RDMA_OPTION_ID_ACK_TIMEOUT: id->ack_timeout = *(const uint8_t *)value; break;
    case RDMA_OPTION_ID_REUSEADDR: id->reuse = *(const int *)value != 0; break;
    default: break; /* IPv4 addresses never reach IPv6 listeners here */
  }
  return 0;
}
