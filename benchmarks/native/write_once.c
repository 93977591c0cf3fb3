/* Posts requests one by one as the verbs library does, and times each until it is complete. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "tessera_rdma_abi.h"

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The ring has a request in each slot; stores the nanoseconds that each took. */
void write_again(tessera_hca_client_page *page, tessera_hca_qp_page *qp, tessera_hca_cq_page *cq,
                 uint32_t index, int bell, uint32_t count, uint64_t *took_ns) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t before = __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
    const uint64_t began_ns = now_ns();
    __atomic_fetch_add(&qp->send_head, 1, __ATOMIC_RELEASE);
    __atomic_fetch_or(&page->dirty[index / 64], UINT64_C(1) << index % 64, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&page->sleeping, __ATOMIC_SEQ_CST) && write(bell, "", 1) < 0) return;
    while (__atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) == before) continue;
    took_ns[i] = now_ns() - began_ns;
    __atomic_store_n(&cq->tail, before + 1, __ATOMIC_RELEASE);
  }
}
