/* What the client and the worker of all_orders.c share. */
#include "tessera_abi.h"

enum { STREAMS = 2, MOST_REQUESTS = 16 };

extern bool is_long[MOST_REQUESTS]; /* by a request's `order` */
extern tessera_client_area *area;
extern tessera_worker_page *page;
extern char **scripts; /* of the client's threads; ends with NULL */

void start_clients(void);
