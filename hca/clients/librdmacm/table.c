/* The table of ids, and the count of each id's unacknowledged events. */
#include <pthread.h>
#include <stdlib.h>

#include "ids.h"

enum { BUCKETS = 1024 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;
static struct tsr_id *table[BUCKETS];

struct tsr_id *tsr_id_new(uint32_t handle, struct rdma_event_channel *channel, void *context,
                          int space) {
  struct tsr_id *id = calloc(1, sizeof *id);
  if (!id) return NULL;
  id->handle = handle;
  id->rdma.channel = channel;
  id->rdma.context = context;
  id->rdma.ps = space;
  id->rdma.qp_type = space == TESSERA_CM_PORT_SPACE_UDP ? TESSERA_VERBS_QP_TYPE_UD
                                                        : TESSERA_VERBS_QP_TYPE_RC;
  id->qkey = TESSERA_CM_UDP_QKEY;
  return id;
}

void tsr_id_add(struct tsr_id *id) {
  pthread_mutex_lock(&table_lock);
  struct tsr_id **bucket = &table[id->handle % BUCKETS];
  id->next = *bucket;
  *bucket = id;
  pthread_mutex_unlock(&table_lock);
}

struct tsr_id *tsr_id_find(uint32_t handle, bool for_event) {
  pthread_mutex_lock(&table_lock);
  struct tsr_id *id = table[handle % BUCKETS];
  while (id && id->handle != handle) id = id->next;
  if (id && for_event) id->events_given++;
  pthread_mutex_unlock(&table_lock);
  return id;
}

void tsr_id_remove(struct tsr_id *id) {
  pthread_mutex_lock(&table_lock);
  struct tsr_id **link = &table[id->handle % BUCKETS];
  while (*link && *link != id) link = &(*link)->next;
  if (*link) *link = id->next;
  pthread_mutex_unlock(&table_lock);
}

void tsr_id_acknowledge(struct tsr_id *id) {
  pthread_mutex_lock(&table_lock);
  id->events_acknowledged++;
  pthread_cond_broadcast(&acknowledged);
  pthread_mutex_unlock(&table_lock);
}

void tsr_id_wait_acknowledged(struct tsr_id *id) {
  pthread_mutex_lock(&table_lock);
  while (id->events_acknowledged != id->events_given)
    pthread_cond_wait(&acknowledged, &table_lock);
  pthread_mutex_unlock(&table_lock);
}
