/* Blocks whose threads share memory or wait for each other, on the calling thread of the pool. */
#ifndef TESSERA_WORKER_CTA_H
#define TESSERA_WORKER_CTA_H

#include "tessera_abi.h"

/* What a backend made of a kernel for one block shape. */
typedef struct tw_code {
  uint64_t entry;       /* a tessera_kernel_entry, or a tessera_group_entry if there are groups */
  uint32_t groups;      /* of lanes that wait for each other, of a block; 0: nothing waits */
  uint32_t stack_bytes; /* that a group needs */
  uint32_t counts;      /* whether groups come to barriers that are counted */
  uint32_t reserved;
} tw_code;

typedef struct tw_launch {
  tessera_launch_context context; /* first: what the code knows the launch by */
  tw_code code;
  uint32_t shared_bytes; /* of a block */
} tw_launch;

/* tessera_kernel_entry functions; the context is that of a tw_launch. */
void tw_cta_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                uint64_t end, tessera_thread_state *thread);
void tw_shared_run(const tessera_launch_context *context, const uint8_t *parameters, uint64_t first,
                   uint64_t end, tessera_thread_state *thread);

/* Gives back what the calling thread needed for that; it runs no block any more. */
void tw_cta_end_thread(void);

/* shared.c: a window of that many bytes, 0 too, for the blocks of the calling thread. Does not
 * return where there is no memory. */
uint64_t tw_shared_window(uint32_t bytes);
void tw_shared_end_thread(void);

#endif
