/* Communicators of one rank, which have no other to communicate with; and versions. */
#define _GNU_SOURCE
#include "communicators.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "api.h"
#include "objects.h"
#include "texts.h"
#include "unsupported.h"

enum { COMMUNICATOR = 1, SPLIT_NO_COLOR = -1 };

extern int cuInit(unsigned int flags);
extern int cuCtxGetDevice(int *device);
extern int cuDeviceGetCount(int *count);

struct tsr_communicator *tsr_communicator_find(ncclComm_t comm) { return tsr_object_find(comm, COMMUNICATOR); }

ncclResult_t tsr_ncclGetVersion(int *version) {
  if (!version) return ncclInvalidArgument;
  *version = TSR_NCCL_VERSION;
  return ncclSuccess;
}

ncclResult_t tsr_ncclGetUniqueId(ncclUniqueId *uniqueId) {
  if (!uniqueId) return ncclInvalidArgument;
  /* The system call, because glibc has getrandom() only since 2.25. */
  const long got = syscall(SYS_getrandom, uniqueId->internal, sizeof uniqueId->internal, 0);
  return got == (long)sizeof uniqueId->internal ? ncclSuccess : ncclSystemError;
}

const char *tsr_ncclGetErrorString(ncclResult_t result_code) {
  return tsr_status_text(result_code, "unknown result code");
}

/* The reasons of refusals are on stderr. */
const char *tsr_ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return "";
}

static ncclResult_t refuse_ranks(void) {
  static uint32_t said;
  tsr_unsupported("an NCCL communicator of several ranks", "ncclInvalidUsage", &said);
  return ncclInvalidUsage;
}

static ncclResult_t make(ncclComm_t *comm, int device) {
  struct tsr_communicator *made = tsr_object_new(COMMUNICATOR, sizeof *made);
  if (!made) return ncclSystemError;
  made->device = device;
  *comm = made;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
  (void)commId;
  int device = 0;
  if (!comm || nranks < 1 || rank < 0 || rank >= nranks) return ncclInvalidArgument;
  if (nranks > 1) return refuse_ranks();
  if (cuInit(0) != 0) return ncclUnhandledCudaError;
  if (cuCtxGetDevice(&device) != 0) device = 0;
  return make(comm, device);
}

/* A configuration is about threads, buffers and waiting, of which one rank needs none. */
ncclResult_t tsr_ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                        const void *config) {
  (void)config;
  return tsr_ncclCommInitRank(comm, nranks, commId, rank);
}

ncclResult_t tsr_ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, const void *config) {
  (void)key;
  (void)config;
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !newcomm || (color < 0 && color != SPLIT_NO_COLOR)) return ncclInvalidArgument;
  *newcomm = NULL;
  return color == SPLIT_NO_COLOR ? ncclSuccess : make(newcomm, found->device);
}

ncclResult_t tsr_ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist) {
  int count = 0;
  if (!comms || ndev < 1) return ncclInvalidArgument;
  if (ndev > 1) return refuse_ranks();
  if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0) return ncclUnhandledCudaError;
  const int device = devlist ? devlist[0] : 0;
  if (device < 0 || device >= count) return ncclInvalidArgument;
  return make(comms, device);
}

ncclResult_t tsr_ncclCommDestroy(ncclComm_t comm) {
  return tsr_object_free(comm, COMMUNICATOR) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t tsr_ncclCommAbort(ncclComm_t comm) { return tsr_ncclCommDestroy(comm); }

/* Registered memory is sent without a copy to a buffer, which one rank never makes. */
ncclResult_t tsr_ncclCommRegister(ncclComm_t comm, void *buff, size_t size, void **handle) {
  if (!tsr_communicator_find(comm) || !buff || !size || !handle) return ncclInvalidArgument;
  *handle = buff;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommDeregister(ncclComm_t comm, void *handle) {
  (void)handle;
  return tsr_communicator_find(comm) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t tsr_ncclCommFinalize(ncclComm_t comm) {
  struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found) return ncclInvalidArgument;
  if (found->is_over) return ncclInvalidUsage;
  found->is_over = true;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommCount(ncclComm_t comm, int *count) {
  if (!tsr_communicator_find(comm) || !count) return ncclInvalidArgument;
  *count = 1;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommUserRank(ncclComm_t comm, int *rank) {
  if (!tsr_communicator_find(comm) || !rank) return ncclInvalidArgument;
  *rank = 0;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommCuDevice(ncclComm_t comm, int *device) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !device) return ncclInvalidArgument;
  *device = found->device;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  if (!tsr_communicator_find(comm) || !asyncError) return ncclInvalidArgument;
  *asyncError = ncclSuccess;
  return ncclSuccess;
}
