/* Collectives and messages. One rank alone receives what it has sent: most collectives are a copy in its stream
 * then, which graphs can capture. */
#include <stdbool.h>
#include <string.h>

#include "api.h"
#include "groups.h"
#include "operations.h"
#include "reductions.h"

enum { SCALAR_IN_DEVICE_MEMORY, SCALAR_IN_HOST_MEMORY };

static bool overflows(size_t count, int datatype, int ranks) {
  size_t bytes = 0;
  return __builtin_mul_overflow(count, tsr_element_bytes(datatype) * (size_t)ranks, &bytes);
}

static ncclResult_t copy(const struct tsr_operation *operation, cudaStream_t stream) {
  const size_t bytes = operation->count * tsr_element_bytes(operation->datatype);
  if (operation->send == operation->receive) return ncclSuccess;
  const int status = cuMemcpyDtoDAsync_v2(operation->receive, operation->send, bytes, stream);
  return status ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t put(ncclComm_t handle, struct tsr_operation operation, const void *send, void *receive,
                        cudaStream_t stream) {
  struct tsr_communicator *comm = tsr_communicator_find(handle);
  if (!comm || !tsr_element_bytes(operation.datatype) || operation.root < 0 || operation.root >= comm->mesh.ranks)
    return ncclInvalidArgument;
  if (overflows(operation.count, operation.datatype, comm->mesh.ranks)) return ncclInvalidArgument;
  if (comm->is_over) return ncclInvalidUsage;
  if (comm->async_error != ncclSuccess) return comm->async_error;
  if (!operation.count) return ncclSuccess;
  const bool is_root = operation.root == comm->mesh.rank;
  const bool sends = is_root || (operation.kind != TSR_BROADCAST && operation.kind != TSR_SCATTER);
  const bool receives = is_root || (operation.kind != TSR_REDUCE && operation.kind != TSR_GATHER);
  if ((sends && !send) || (receives && !receive)) return ncclInvalidArgument;
  operation.send = (uintptr_t)send;
  operation.receive = (uintptr_t)receive;
  if (comm->mesh.ranks == 1 && operation.op != TSR_PREMULTIPLIED_SUM) return copy(&operation, stream);
  return tsr_engine_put(comm, &operation, NULL, stream);
}

static ncclResult_t put_reduction(ncclComm_t handle, struct tsr_operation operation, const void *send, void *receive,
                                  cudaStream_t stream) {
  const struct tsr_communicator *comm = tsr_communicator_find(handle);
  if (!comm || operation.op < 0 || operation.op >= TSR_PREMULTIPLIED_SUM + TSR_MAX_SCALARS)
    return ncclInvalidArgument;
  if (operation.op >= TSR_PREMULTIPLIED_SUM) {
    operation.scalar = comm->scalars[operation.op - TSR_PREMULTIPLIED_SUM];
    if (!operation.scalar.used || operation.scalar.datatype != operation.datatype) return ncclInvalidArgument;
    operation.op = TSR_PREMULTIPLIED_SUM; /* ranks may have different numbers */
  }
  return put(handle, operation, send, receive, stream);
}

ncclResult_t tsr_ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, int datatype, int op,
                               ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_ALL_REDUCE, .count = count, .datatype = datatype, .op = op};
  return put_reduction(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclReduce(const void *sendbuff, void *recvbuff, size_t count, int datatype, int op, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {
      .kind = TSR_REDUCE, .count = count, .datatype = datatype, .op = op, .root = root};
  return put_reduction(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, int datatype, int op,
                                   ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {
      .kind = TSR_REDUCE_SCATTER, .count = recvcount, .datatype = datatype, .op = op};
  return put_reduction(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclBcast(void *buff, size_t count, int datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return tsr_ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t tsr_ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_BROADCAST, .count = count, .datatype = datatype, .root = root};
  return put(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, int datatype,
                               ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_ALL_GATHER, .count = sendcount, .datatype = datatype};
  return put(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, int datatype, ncclComm_t comm,
                              cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_ALL_TO_ALL, .count = count, .datatype = datatype};
  return put(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclGather(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_GATHER, .count = count, .datatype = datatype, .root = root};
  return put(comm, wanted, sendbuff, recvbuff, stream);
}

ncclResult_t tsr_ncclScatter(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                             ncclComm_t comm, cudaStream_t stream) {
  const struct tsr_operation wanted = {.kind = TSR_SCATTER, .count = count, .datatype = datatype, .root = root};
  return put(comm, wanted, sendbuff, recvbuff, stream);
}

static ncclResult_t put_message(ncclComm_t handle, struct tsr_message message) {
  struct tsr_communicator *comm = tsr_communicator_find(handle);
  if (!comm || !tsr_element_bytes(message.datatype) || message.peer < 0 || message.peer >= comm->mesh.ranks)
    return ncclInvalidArgument;
  if ((message.count && !message.address) || overflows(message.count, message.datatype, 1))
    return ncclInvalidArgument;
  if (comm->is_over) return ncclInvalidUsage;
  if (comm->async_error != ncclSuccess) return comm->async_error;
  return tsr_group_add_message(comm, &message);
}

ncclResult_t tsr_ncclSend(const void *sendbuff, size_t count, int datatype, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
  return put_message(comm, (struct tsr_message){.sends = true, .address = (uintptr_t)sendbuff, .count = count,
                                                .datatype = datatype, .peer = peer, .stream = stream});
}

ncclResult_t tsr_ncclRecv(void *recvbuff, size_t count, int datatype, int peer, ncclComm_t comm,
                          cudaStream_t stream) {
  return put_message(comm, (struct tsr_message){.address = (uintptr_t)recvbuff, .count = count,
                                                .datatype = datatype, .peer = peer, .stream = stream});
}

ncclResult_t tsr_ncclRedOpCreatePreMulSum(int *op, void *scalar, int datatype, int residence, ncclComm_t handle) {
  struct tsr_communicator *comm = tsr_communicator_find(handle);
  const size_t bytes = tsr_element_bytes(datatype);
  if (!comm || !op || !scalar || !bytes) return ncclInvalidArgument;
  if (residence != SCALAR_IN_DEVICE_MEMORY && residence != SCALAR_IN_HOST_MEMORY) return ncclInvalidArgument;
  for (int i = 0; i < TSR_MAX_SCALARS; i++) {
    struct tsr_scalar *found = &comm->scalars[i];
    if (found->used) continue;
    *found = (struct tsr_scalar){.used = true, .datatype = datatype};
    if (residence == SCALAR_IN_HOST_MEMORY) memcpy(found->bytes, scalar, bytes);
    else found->device_address = (uintptr_t)scalar;
    *op = TSR_PREMULTIPLIED_SUM + i;
    return ncclSuccess;
  }
  return ncclInvalidUsage;
}

ncclResult_t tsr_ncclRedOpDestroy(int op, ncclComm_t handle) {
  struct tsr_communicator *comm = tsr_communicator_find(handle);
  const int index = op - TSR_PREMULTIPLIED_SUM;
  if (!comm || index < 0 || index >= TSR_MAX_SCALARS || !comm->scalars[index].used) return ncclInvalidArgument;
  comm->scalars[index].used = false;
  return ncclSuccess;
}
