/* The process's connection to hcad's connection manager, opened when it is first needed. */
#ifndef TSR_RDMA_LINK_H
#define TSR_RDMA_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "tessera_rdma_abi.h"

/* Send a request and wait for its reply: 0 or an errno value; ENODEV: there is no HCA; EIO: hcad
 * has gone. On success, `answer` receives exactly `answer_bytes`, and `fd`, unless it is NULL,
 * receives a descriptor. */
int tsr_cm_ask(uint16_t type, const void *payload, uint32_t bytes, void *answer,
               uint32_t answer_bytes, int *fd);
/* The same for requests whose argument is a handle and whose reply is empty. */
int tsr_cm_ask_handle(uint16_t type, uint32_t handle);

/* Whether hcad has closed this connection, or closes it within the time that hcad takes to close
 * all its connections. */
bool tsr_cm_is_dead(void);

/* Convert an errno value to the API's result: return 0, or -1 with errno set. */
int tsr_cm_result(int error);

#endif
