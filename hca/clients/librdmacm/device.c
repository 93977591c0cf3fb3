/* The device to which ids are bound: there is at most one. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "ids.h"
#include "verbs_api.h"

enum { PORT = 1, FIRST_GID = 0, CONNECTION_GID = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_context *opened;
static struct ibv_pd *domain;

static struct ibv_context *open_first(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  if (!list) return NULL;
  struct ibv_context *context = NULL;
  errno = ENODEV;
  if (list[0]) context = ibv_open_device(list[0]);
  const int error = errno;
  ibv_free_device_list(list);
  errno = error;
  return context;
}

struct ibv_context *tsr_verbs(void) {
  pthread_mutex_lock(&lock);
  if (!opened) opened = open_first();
  pthread_mutex_unlock(&lock);
  return opened;
}

struct ibv_pd *tsr_default_pd(void) {
  struct ibv_context *context = tsr_verbs();
  if (!context) return NULL;
  pthread_mutex_lock(&lock);
  if (!domain) domain = ibv_alloc_pd(context);
  pthread_mutex_unlock(&lock);
  return domain;
}

/* Read the GID for a connection: the first GID if that is the source address, else
 * the default one. */
static int own_gid(struct ibv_context *context, const struct tsr_id *id, union ibv_gid *gid) {
  const struct sockaddr_in6 *source = (const struct sockaddr_in6 *)&id->rdma.route.addr.src_storage;
  if (source->sin6_family == AF_INET6 && ibv_query_gid(context, PORT, FIRST_GID, gid) == 0 &&
      memcmp(gid, &source->sin6_addr, sizeof *gid) == 0)
    return 0;
  return ibv_query_gid(context, PORT, CONNECTION_GID, gid) == 0 ? 0 : errno;
}

int tsr_id_bind_device(struct tsr_id *id) {
  struct ibv_context *context = tsr_verbs();
  if (!context) return errno;
  id->rdma.verbs = context;
  id->rdma.port_num = PORT;
  struct rdma_ib_addr *own = &id->rdma.route.addr.addr.ibaddr;
  own->pkey = 0xffff;
  if (id->rdma.pd == NULL) id->rdma.pd = tsr_default_pd();
  return own_gid(context, id, &own->sgid);
}

struct ibv_context **tsr_rdma_get_devices(int *count) {
  struct ibv_context **list = calloc(2, sizeof *list);
  if (list) list[0] = tsr_verbs();
  if (count) *count = list && list[0] ? 1 : 0;
  if (list && list[0]) return list;
  free(list);
  return NULL;
}

void tsr_rdma_free_devices(struct ibv_context **list) { free(list); }
