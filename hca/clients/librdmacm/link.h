/* The connection to hcad's connection manager: one of this process, opened when it is needed. */
#ifndef TSR_RDMA_LINK_H
#define TSR_RDMA_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_rdma_abi.h"

/* Sends a request and waits for its reply: 0 or an errno value, ENODEV where there is no HCA, EIO
 * where hcad has gone. `answer` of exactly `answer_bytes` is filled in on success, and `fd`, unless
 * NULL, with a descriptor. */
int tsr_cm_ask(uint16_t type, const void *payload, uint32_t bytes, void *answer,
               uint32_t answer_bytes, int *fd);
/* The same for requests whose argument is a handle and that answer nothing. */
int tsr_cm_ask_handle(uint16_t type, uint32_t handle);

/* Whether hcad hangs up, or has, within the time that its end takes to reach all its descriptors. */
bool tsr_cm_is_dead(void);

/* 0, or -1 with errno set. */
int tsr_cm_result(int error);

#endif
