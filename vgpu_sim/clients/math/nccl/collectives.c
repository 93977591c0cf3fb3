/* Collectives of one rank: what a rank receives is what it has sent, so each is a copy in its stream. */
#include <stdbool.h>

#include "api.h"
#include "communicators.h"
#include "unsupported.h"

extern int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, cudaStream_t stream);

/* By ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16,
 * float8e4m3, float8e5m2. */
static const uint8_t ELEMENT_BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

enum { TYPES = sizeof ELEMENT_BYTES, REDUCTIONS = 5 /* sum, prod, max, min, avg */ };

static ncclResult_t copy(const void *sendbuff, void *recvbuff, size_t count, int datatype, ncclComm_t comm,
                         cudaStream_t stream) {
  size_t bytes = 0;
  if (!tsr_communicator_find(comm) || datatype < 0 || datatype >= TYPES) return ncclInvalidArgument;
  if (__builtin_mul_overflow(count, (size_t)ELEMENT_BYTES[datatype], &bytes)) return ncclInvalidArgument;
  if (!bytes) return ncclSuccess;
  if (!sendbuff || !recvbuff) return ncclInvalidArgument;
  if (sendbuff == recvbuff) return ncclSuccess;
  const int status = cuMemcpyDtoDAsync_v2((uintptr_t)recvbuff, (uintptr_t)sendbuff, bytes, stream);
  return status ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t copy_from_root(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                                   ncclComm_t comm, cudaStream_t stream) {
  if (root != 0) return ncclInvalidArgument;
  return copy(sendbuff, recvbuff, count, datatype, comm, stream);
}

/* One rank's reduction by a known operation is its own numbers; others multiply them before. */
static ncclResult_t reduce(const void *sendbuff, void *recvbuff, size_t count, int datatype, int op,
                           ncclComm_t comm, cudaStream_t stream) {
  if (op < 0) return ncclInvalidArgument;
  if (op >= REDUCTIONS) {
    static uint32_t said;
    tsr_unsupported("an NCCL reduction by an operation of ncclRedOpCreatePreMulSum", "ncclInvalidUsage",
                    &said);
    return ncclInvalidUsage;
  }
  return copy(sendbuff, recvbuff, count, datatype, comm, stream);
}

ncclResult_t tsr_ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, int datatype, int op,
                               ncclComm_t comm, cudaStream_t stream) {
  return reduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t tsr_ncclReduce(const void *sendbuff, void *recvbuff, size_t count, int datatype, int op, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  if (root != 0) return ncclInvalidArgument;
  return reduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t tsr_ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, int datatype, int op,
                                   ncclComm_t comm, cudaStream_t stream) {
  return reduce(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
}

ncclResult_t tsr_ncclBcast(void *buff, size_t count, int datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return copy_from_root(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t tsr_ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return copy_from_root(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

ncclResult_t tsr_ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, int datatype,
                               ncclComm_t comm, cudaStream_t stream) {
  return copy(sendbuff, recvbuff, sendcount, datatype, comm, stream);
}

ncclResult_t tsr_ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, int datatype, ncclComm_t comm,
                              cudaStream_t stream) {
  return copy(sendbuff, recvbuff, count, datatype, comm, stream);
}

ncclResult_t tsr_ncclGather(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return copy_from_root(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

ncclResult_t tsr_ncclScatter(const void *sendbuff, void *recvbuff, size_t count, int datatype, int root,
                             ncclComm_t comm, cudaStream_t stream) {
  return copy_from_root(sendbuff, recvbuff, count, datatype, root, comm, stream);
}

/* A group's operations are put into their streams as they come: one rank waits for no other. */
static _Thread_local unsigned groups;

ncclResult_t tsr_ncclGroupStart(void) {
  groups++;
  return ncclSuccess;
}

ncclResult_t tsr_ncclGroupEnd(void) {
  if (!groups) return ncclInvalidUsage;
  groups--;
  return ncclSuccess;
}
