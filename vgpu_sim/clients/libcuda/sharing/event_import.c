#define _GNU_SOURCE
#include "sharing/event_import.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "callbacks/later.h"
#include "exchange/health.h"
#include "event_tables/event_table.h"
#include "nodes/graph.h"
#include "sharing/opened.h"

/* No pool has this handle, so no function of the program closes a table. */
static const uint64_t NO_POOL = UINT64_MAX;

struct import {
  struct import *next;
  uint64_t context; /* handle */
  uint64_t address, users;
  uint8_t key[sizeof((tessera_shared_memory *)0)->key];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* before the locks of opened.c */
static struct import *imports;

static CUresult open_table(struct tsr_context *context, const tessera_shared_memory *name,
                           struct import *made) {
  tessera_shared_memory wanted = *name;
  if (syscall(SYS_getrandom, &wanted.tag, sizeof wanted.tag, 0) != sizeof wanted.tag)
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (wanted.tag == 0 || wanted.tag == TESSERA_EVENT_ENDED) wanted.tag = 1;
  CUresult result = tsr_opened_add(context, &wanted, NO_POOL, &made->address);
  if (result != CUDA_SUCCESS) return result;
  result = tsr_event_table_enter(context, made->address, wanted.tag);
  if (result != CUDA_SUCCESS) tsr_opened_release(made->address, NO_POOL);
  return result;
}

/* Forget the tables of contexts that have ended. */
static void prune(void) {
  for (struct import **link = &imports; *link;) {
    struct import *one = *link;
    if (tsr_object_find(TSR_CONTEXT, one->context)) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    free(one);
  }
}

static CUresult import(struct tsr_context *context, const tessera_shared_memory *name,
                       uint64_t *address) {
  const uint64_t handle = tsr_object_handle(TSR_CONTEXT, context);
  prune();
  struct import *one = imports;
  while (one && (one->context != handle || memcmp(one->key, name->key, sizeof one->key) != 0))
    one = one->next;
  if (!one) {
    one = calloc(1, sizeof *one);
    if (!one) return CUDA_ERROR_OUT_OF_MEMORY;
    one->context = handle;
    memcpy(one->key, name->key, sizeof one->key);
    const CUresult result = open_table(context, name, one);
    if (result != CUDA_SUCCESS) {
      free(one);
      return result;
    }
    one->next = imports;
    imports = one;
  }
  one->users++;
  *address = one->address;
  return CUDA_SUCCESS;
}

CUresult tsr_event_import(struct tsr_context *context, const tessera_shared_memory *name,
                          uint64_t *address) {
  if (name->chunk_units * TESSERA_CHUNK_ALIGN_BYTES != sizeof(tessera_event_table) ||
      name->offset || name->bytes != sizeof(tessera_event_table) ||
      name->kind != TESSERA_CHUNK_KIND_HOST)
    return CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_lock(&lock);
  const CUresult result = import(context, name, address);
  pthread_mutex_unlock(&lock);
  return result;
}

static void close_table(void *data) {
  struct import *one = data;
  struct tsr_context *context = TSR_FIND(tsr_context, TSR_CONTEXT, one->context);
  if (context && tsr_context_error(context) == CUDA_SUCCESS) {
    tsr_event_table_leave(one->address);
    tsr_opened_release(one->address, NO_POOL);
  }
  free(one);
}

void tsr_event_unimport(uint64_t context, uint64_t address) {
  struct import *last = NULL;
  pthread_mutex_lock(&lock);
  for (struct import **link = &imports; *link; link = &(*link)->next) {
    if ((*link)->context != context || (*link)->address != address) continue;
    if (--(*link)->users == 0) {
      last = *link;
      *link = last->next;
    }
    break;
  }
  pthread_mutex_unlock(&lock);
  if (last) tsr_later(context, close_table, last, tsr_graphs_sweep);
}
