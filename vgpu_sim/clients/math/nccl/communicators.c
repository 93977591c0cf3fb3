/* Versions, ids, and the life of communicators. */
#define _GNU_SOURCE
#include "communicators.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "connections/bootstrap.h"
#include "connections/secrets.h"
#include "groups.h"
#include "objects.h"
#include "operations.h"
#include "texts.h"

enum { COMMUNICATOR = 1, SPLIT_NO_COLOR = -1 };

struct tsr_communicator *tsr_communicator_find(ncclComm_t comm) { return tsr_object_find(comm, COMMUNICATOR); }

ncclResult_t tsr_ncclGetVersion(int *version) {
  if (!version) return ncclInvalidArgument;
  *version = TSR_NCCL_VERSION;
  return ncclSuccess;
}

ncclResult_t tsr_ncclGetUniqueId(ncclUniqueId *uniqueId) {
  return uniqueId ? tsr_bootstrap_begin(uniqueId, NULL) : ncclInvalidArgument;
}

const char *tsr_ncclGetErrorString(ncclResult_t result_code) {
  return tsr_status_text(result_code, "unknown result code");
}

/* The reasons of refusals by arguments are on stderr. */
const char *tsr_ncclGetLastError(ncclComm_t comm) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  return found && found->async_error != ncclSuccess ? found->error : "";
}

static struct tsr_communicator *make(int device, tsr_context_t context, int ranks, int rank) {
  struct tsr_communicator *made = tsr_object_new(COMMUNICATOR, sizeof *made);
  if (!made) return NULL;
  made->device = device;
  made->context = context;
  made->mesh.rank = rank;
  made->mesh.ranks = ranks;
  pthread_mutex_init(&made->engine.order, NULL);
  pthread_mutex_init(&made->engine.lock, NULL);
  pthread_cond_init(&made->engine.changed, NULL);
  return made;
}

static void destroy(struct tsr_communicator *comm) {
  tsr_engine_stop(comm);
  tsr_mesh_close(&comm->mesh);
  if (comm->retained) cuDevicePrimaryCtxRelease_v2(comm->device);
  tsr_object_free(comm, COMMUNICATOR);
}

/* Make the communicator of a rank, and connect it to the others. A single rank may have no id; with one it connects to
 * the root nevertheless, which then stops listening. */
static ncclResult_t create(ncclComm_t *comm, int device, tsr_context_t context, bool retained, int ranks, int rank,
                           const ncclUniqueId *id) {
  struct tsr_communicator *made = make(device, context, ranks, rank);
  if (!made) return ncclSystemError;
  made->retained = retained;
  *comm = made;
  if (!id) return tsr_mesh_prepare(&made->mesh) ? ncclSuccess : ncclSystemError;
  return tsr_group_add_join(made, id);
}

/* Return the current context and its device, or the first device's primary context if there is none. */
static bool current(int *device, tsr_context_t *context, bool *retained) {
  *retained = false;
  if (cuInit(0) != 0 || cuCtxGetCurrent(context) != 0) return false;
  if (*context) return cuCtxGetDevice(device) == 0;
  *device = 0;
  *retained = cuDevicePrimaryCtxRetain(context, 0) == 0;
  return *retained;
}

ncclResult_t tsr_ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
  int device;
  bool retained;
  tsr_context_t context;
  if (!comm || nranks < 1 || rank < 0 || rank >= nranks) return ncclInvalidArgument;
  *comm = NULL;
  if (!current(&device, &context, &retained)) return ncclUnhandledCudaError;
  return create(comm, device, context, retained, nranks, rank, &commId);
}

/* A configuration is about threads, buffers and waiting, of which there is one kind. */
ncclResult_t tsr_ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                        const void *config) {
  (void)config;
  return tsr_ncclCommInitRank(comm, nranks, commId, rank);
}

/* Several ids spread the ranks over several roots. One root is enough, and the first rank ends the others. */
ncclResult_t tsr_ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nIds,
                                          const ncclUniqueId *commIds, const void *config) {
  (void)config;
  if (nIds < 1 || !commIds) return ncclInvalidArgument;
  const ncclResult_t result = tsr_ncclCommInitRank(comm, nranks, commIds[0], rank);
  for (int i = 1; i < nIds && rank == 0 && result != ncclInvalidArgument; i++)
    if (memcmp(&commIds[i], &commIds[0], sizeof commIds[0]) != 0) tsr_bootstrap_end(&commIds[i]);
  return result;
}

/* What each rank sends to the others when a communicator is split. */
struct share {
  int32_t color, key;
  ncclUniqueId id; /* for the new communicator that begins with this rank */
};

/* Exchange the shares of all ranks; `all` has this rank's share. */
static ncclResult_t exchange(struct tsr_communicator *comm, struct share *all) {
  const int rank = comm->mesh.rank, ranks = comm->mesh.ranks;
  const struct tsr_piece *culprit;
  struct tsr_piece *pieces = calloc(2 * (size_t)ranks, sizeof *pieces);
  if (!pieces) return ncclSystemError;
  size_t count = 0;
  for (int peer = 0; peer < ranks; peer++) {
    if (peer == rank) continue;
    pieces[count] = (struct tsr_piece){.peer = peer, .bytes = &all[rank], .size = sizeof *all};
    pieces[ranks + (int)count++] = (struct tsr_piece){.peer = peer, .bytes = &all[peer], .size = sizeof *all};
  }
  const ncclResult_t result =
      tsr_mesh_transfer(&comm->mesh, pieces, count, pieces + ranks, count, &culprit);
  free(pieces);
  return result == ncclSuccess ? result : tsr_fail_transfer(comm, result, "during", "ncclCommSplit");
}

/* Return this rank's number in the new communicator, its number of ranks, and the old rank of its first one:
 * ranks are in the order of their keys, then of their old ranks. */
static int find_place(const struct share *all, int ranks, int rank, int *members, int *first) {
  int place = 0;
  *members = 0;
  *first = rank;
  for (int other = 0; other < ranks; other++) {
    if (all[other].color != all[rank].color) continue;
    ++*members;
    place += all[other].key < all[rank].key || (all[other].key == all[rank].key && other < rank);
    if (all[other].key < all[*first].key || (all[other].key == all[*first].key && other < *first)) *first = other;
  }
  return place;
}

/* Make the communicator of this rank's part, whose root is that of `id`, which has no secret yet. */
static ncclResult_t create_part(struct tsr_communicator *comm, int ranks, int rank, ncclUniqueId id, ncclComm_t *made) {
  if (ranks == 1) return create(made, comm->device, comm->context, false, 1, 0, NULL);
  tsr_bootstrap_reveal(&id, &comm->mesh);
  const ncclResult_t result = create(made, comm->device, comm->context, false, ranks, rank, &id);
  /* The others would wait for this rank, which has the root. */
  if (result != ncclSuccess && rank == 0) tsr_bootstrap_end(&id);
  tsr_wipe(&id, sizeof id);
  return result;
}

static ncclResult_t split(struct tsr_communicator *comm, struct share *all, ncclComm_t *made) {
  struct share *const mine = &all[comm->mesh.rank];
  int members, first;
  ncclResult_t result = exchange(comm, all);
  if (result != ncclSuccess) return result;
  const int place = find_place(all, comm->mesh.ranks, comm->mesh.rank, &members, &first);
  const bool begins = mine->color != SPLIT_NO_COLOR && place == 0 && members > 1;
  if (begins) result = tsr_bootstrap_begin(&mine->id, &comm->mesh);
  const ncclResult_t exchanged = exchange(comm, all);
  if (begins && result == ncclSuccess && exchanged != ncclSuccess) {
    tsr_bootstrap_reveal(&mine->id, &comm->mesh);
    tsr_bootstrap_end(&mine->id);
  }
  if (result != ncclSuccess || (result = exchanged) != ncclSuccess) return result;
  return mine->color == SPLIT_NO_COLOR ? ncclSuccess : create_part(comm, members, place, all[first].id, made);
}

ncclResult_t tsr_ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, const void *config) {
  (void)config;
  struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !newcomm || (color < 0 && color != SPLIT_NO_COLOR)) return ncclInvalidArgument;
  *newcomm = NULL;
  ncclResult_t result = tsr_engine_drain(found);
  if (result != ncclSuccess) return result;
  struct share *all = calloc((size_t)found->mesh.ranks, sizeof *all);
  if (!all) return ncclSystemError;
  all[found->mesh.rank] = (struct share){.color = color, .key = key};
  result = split(found, all, newcomm);
  tsr_wipe(all, (size_t)found->mesh.ranks * sizeof *all);
  free(all);
  return result;
}

ncclResult_t tsr_ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist) {
  int count = 0;
  ncclUniqueId id;
  if (!comms || ndev < 1) return ncclInvalidArgument;
  if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0) return ncclUnhandledCudaError;
  for (int i = 0; i < ndev; i++) {
    const int device = devlist ? devlist[i] : i;
    if (device < 0 || device >= count) return ncclInvalidArgument;
  }
  ncclResult_t result = ndev > 1 ? tsr_bootstrap_begin(&id, NULL) : ncclSuccess;
  if (result != ncclSuccess) return result;
  tsr_ncclGroupStart();
  for (int i = 0; i < ndev && result == ncclSuccess; i++) {
    const int device = devlist ? devlist[i] : i;
    tsr_context_t context;
    result = cuDevicePrimaryCtxRetain(&context, device) ? ncclUnhandledCudaError
                                                        : create(&comms[i], device, context, true, ndev, i,
                                                                 ndev > 1 ? &id : NULL);
  }
  /* The ranks before would wait for one that does not come. */
  if (ndev > 1 && result != ncclSuccess) tsr_bootstrap_end(&id);
  const ncclResult_t joined = tsr_ncclGroupEnd();
  if (ndev > 1) tsr_wipe(&id, sizeof id);
  return result != ncclSuccess ? result : joined;
}

ncclResult_t tsr_ncclCommDestroy(ncclComm_t comm) {
  struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found) return ncclInvalidArgument;
  destroy(found);
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommAbort(ncclComm_t comm) {
  struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found) return ncclInvalidArgument;
  tsr_mesh_abort(&found->mesh);
  destroy(found);
  return ncclSuccess;
}

/* Registered memory is sent without a copy to a buffer. Here the buffer's copy is what is sent. */
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
  return tsr_engine_drain(found);
}

ncclResult_t tsr_ncclCommCount(ncclComm_t comm, int *count) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !count) return ncclInvalidArgument;
  *count = found->mesh.ranks;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommUserRank(ncclComm_t comm, int *rank) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !rank) return ncclInvalidArgument;
  *rank = found->mesh.rank;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommCuDevice(ncclComm_t comm, int *device) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !device) return ncclInvalidArgument;
  *device = found->device;
  return ncclSuccess;
}

ncclResult_t tsr_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  const struct tsr_communicator *found = tsr_communicator_find(comm);
  if (!found || !asyncError) return ncclInvalidArgument;
  *asyncError = found->async_error;
  return ncclSuccess;
}

ncclResult_t tsr_ncclMemAlloc(void **ptr, size_t size) {
  uint64_t address = 0;
  if (!ptr || !size) return ncclInvalidArgument;
  if (cuMemAlloc_v2(&address, size) != 0) return ncclUnhandledCudaError;
  *ptr = (void *)(uintptr_t)address;
  return ncclSuccess;
}

ncclResult_t tsr_ncclMemFree(void *ptr) {
  return !ptr || cuMemFree_v2((uintptr_t)ptr) == 0 ? ncclSuccess : ncclUnhandledCudaError;
}
