#define _GNU_SOURCE
#include "groups.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "background.h"
#include "connections/bootstrap.h"
#include "connections/secrets.h"

/* A new communicator that waits for the other ranks on a thread of its own. */
struct join {
  struct tsr_communicator *comm;
  ncclUniqueId id;
  pthread_t thread;
  bool started;
  ncclResult_t result;
};

struct pending {
  struct tsr_communicator *comm;
  struct tsr_message message;
};

static _Thread_local unsigned depth;
static _Thread_local struct join *joins;
static _Thread_local struct pending *messages;
static _Thread_local size_t join_count, message_count;

/* Make room for one more element, by doubling. Returns NULL without memory. */
static void *grow(void *array, size_t count, size_t element) {
  return count & (count - 1) ? array : realloc(array, (count ? 2 * count : 1) * element);
}

static void *join_one(void *argument) {
  struct join *join = argument;
  struct tsr_place place = {.host = tsr_host_number()};
  join->result = cuDeviceGetUuid_v2(place.uuid, join->comm->device) == 0
                     ? tsr_bootstrap_join(&join->comm->mesh, &join->id, &place)
                     : ncclUnhandledCudaError;
  if (join->result != ncclSuccess) join->comm->async_error = join->result;
  return NULL;
}

static ncclResult_t join_all(void) {
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < join_count; i++) {
    joins[i].started = tsr_background_start(join_one, &joins[i], &joins[i].thread);
    if (!joins[i].started) joins[i].comm->async_error = joins[i].result = ncclSystemError;
  }
  for (size_t i = 0; i < join_count; i++) {
    if (joins[i].started) tsr_background_join(joins[i].thread);
    if (result == ncclSuccess) result = joins[i].result;
  }
  if (joins) tsr_wipe(joins, join_count * sizeof *joins);
  free(joins);
  joins = NULL;
  join_count = 0;
  return result;
}

/* Put the messages of the first communicator that has some into an operation. */
static ncclResult_t put_messages_of_one(struct tsr_message *room) {
  struct tsr_communicator *comm = messages[0].comm;
  size_t taken = 0, kept = 0;
  for (size_t i = 0; i < message_count; i++) {
    if (messages[i].comm == comm) room[taken++] = messages[i].message;
    else messages[kept++] = messages[i];
  }
  message_count = kept;
  const struct tsr_operation operation = {.kind = TSR_MESSAGES, .message_count = taken};
  return tsr_engine_put(comm, &operation, room, NULL);
}

static ncclResult_t put_messages(void) {
  ncclResult_t result = ncclSuccess;
  struct tsr_message *room = message_count ? malloc(message_count * sizeof *room) : NULL;
  if (message_count && !room) result = ncclSystemError;
  while (message_count && result == ncclSuccess) result = put_messages_of_one(room);
  free(room);
  free(messages);
  messages = NULL;
  message_count = 0;
  return result;
}

static ncclResult_t end_if_outermost(void) {
  if (depth) return ncclSuccess;
  const ncclResult_t joined = join_all();
  const ncclResult_t put = put_messages();
  return joined != ncclSuccess ? joined : put;
}

ncclResult_t tsr_group_add_message(struct tsr_communicator *comm, const struct tsr_message *message) {
  struct pending *more = grow(messages, message_count, sizeof *messages);
  if (!more) return ncclSystemError;
  messages = more;
  messages[message_count++] = (struct pending){comm, *message};
  return end_if_outermost();
}

ncclResult_t tsr_group_add_join(struct tsr_communicator *comm, const ncclUniqueId *id) {
  struct join *more = grow(joins, join_count, sizeof *joins);
  if (!more) return ncclSystemError;
  joins = more;
  joins[join_count++] = (struct join){.comm = comm, .id = *id};
  return end_if_outermost();
}

ncclResult_t tsr_ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}

ncclResult_t tsr_ncclGroupEnd(void) {
  if (!depth) return ncclInvalidUsage;
  depth--;
  return end_if_outermost();
}
