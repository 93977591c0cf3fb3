/* Properties of a request, by its `order`, that both sides of interleave.c use. */
#include "tessera_abi.h"

enum { STREAMS = 4, MOST_REQUESTS = 512 };
enum { PARAMETER_BYTES = 8000 }; /* of a launch: eight of them fill a ring */
enum kind { SHORT, LONG, LOOKED_SHORT, KINDS }; /* LOOKED_SHORT: waits unexpectedly */

struct nature {
  enum kind kind;
  tessera_wait awaited; /* by a request that is not SHORT */
};
extern struct nature natures[MOST_REQUESTS];

extern tessera_client_area *area;
extern tessera_worker_page *page;

void start_clients(void);
void stop_worker(void);
