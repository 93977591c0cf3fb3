#include <stdarg.h>
#include <stdio.h>

#include "communicators.h"
#include "log.h"

ncclResult_t tsr_fail(struct tsr_communicator *comm, ncclResult_t result, const char *format, ...) {
  if (comm->async_error != ncclSuccess) return result;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(comm->error, sizeof comm->error, format, arguments);
  va_end(arguments);
  if (!comm->mesh.aborted) tsr_log("NCCL, rank %d of %d: %s", comm->mesh.rank, comm->mesh.ranks, comm->error);
  comm->async_error = result;
  return result;
}

ncclResult_t tsr_fail_transfer(struct tsr_communicator *comm, ncclResult_t result, const char *when, const char *name) {
  const int peer = tsr_mesh_forged_peer(&comm->mesh);
  if (peer < 0) return tsr_fail(comm, result, "the connection to another rank ended %s %s", when, name);
  return tsr_fail(comm, result,
                  "data from rank %d %s %s has a wrong tag: it was changed on the way, or rank %d did not send it",
                  peer, when, name, peer);
}
