/* hcad's calls for partition keys, shared receive queues, address handles and memory windows. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/internal.h"

enum { WINDOW_BITS = 8 }; /* the bits of a key that the program chooses */

void hca_client_set_pkeys(struct hca *hca, struct hca_client *client, const uint16_t *pkeys) {
  hca_enter(hca);
  memcpy(client->pkeys, pkeys, sizeof client->pkeys);
  hca_leave(hca);
}

struct hca_srq *hca_srq_new(struct hca *hca, struct hca_client *client,
                            const tessera_hca_created *made, uint32_t limit, int page_fd) {
  struct hca_srq *srq = calloc(1, sizeof *srq);
  if (!srq) return NULL;
  tessera_hca_srq_page *page =
      mmap(NULL, made->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
  if (page == MAP_FAILED) {
    const int error = errno;
    free(srq);
    errno = error;
    return NULL;
  }
  *srq = (struct hca_srq){.client = client,
                          .page = page,
                          .slots = (tessera_hca_recv_slot *)(page + 1),
                          .page_bytes = made->page_bytes,
                          .handle = made->handle,
                          .index = made->index,
                          .count = made->second_count,
                          .limit = limit};
  hca_enter(hca);
  client->srqs[srq->index] = srq;
  hca_leave(hca);
  return srq;
}

void hca_srq_set_limit(struct hca *hca, struct hca_srq *srq, uint32_t limit) {
  hca_enter(hca);
  srq->limit = limit;
  hca_leave(hca);
}

uint32_t hca_srq_limit(struct hca *hca, struct hca_srq *srq) {
  hca_enter(hca);
  const uint32_t limit = srq->limit;
  hca_leave(hca);
  return limit;
}

void hca_srq_free(struct hca *hca, struct hca_srq *srq) {
  bool left = false;
  while (!left) { /* no queue pair uses it any more, so none begins to wait */
    hca_enter(hca);
    srq->client->srqs[srq->index] = NULL;
    left = hca_leave_srq(srq);
    if (left) hca_srq_forget(srq);
    hca_leave(hca);
  }
  munmap(srq->page, srq->page_bytes);
  free(srq);
}

struct hca_ah *hca_ah_new(struct hca *hca, struct hca_client *client, uint32_t key,
                          const tessera_hca_ah_create *path) {
  struct hca_ah *ah = calloc(1, sizeof *ah);
  if (!ah) return NULL;
  *ah = (struct hca_ah){.client = client, .key = key, .path = *path};
  hca_enter(hca);
  const bool put = hca_table_put(&hca->ahs, key, ah);
  hca_leave(hca);
  if (put) return ah;
  free(ah);
  errno = ENOMEM;
  return NULL;
}

void hca_ah_free(struct hca *hca, struct hca_ah *ah) {
  hca_enter(hca);
  hca_table_remove(&hca->ahs, ah->key);
  hca_leave(hca);
  free(ah);
}

struct hca_window *hca_window_new(struct hca *hca, struct hca_client *client, uint32_t key,
                                  const tessera_hca_mw_create *wanted) {
  struct hca_window *window = calloc(1, sizeof *window);
  if (!window) return NULL;
  *window = (struct hca_window){
      .client = client, .key = key, .pd = wanted->pd, .type = wanted->type};
  hca_enter(hca);
  const bool put = hca_table_put(&hca->windows, key >> WINDOW_BITS, window);
  hca_leave(hca);
  if (put) return window;
  free(window);
  errno = ENOMEM;
  return NULL;
}

void hca_window_free(struct hca *hca, struct hca_window *window) {
  hca_enter(hca);
  hca_table_remove(&hca->windows, window->key >> WINDOW_BITS);
  hca_leave(hca);
  free(window);
}
