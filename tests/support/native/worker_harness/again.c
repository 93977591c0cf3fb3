/* A worker that is stopped and started again for another client: it keeps no state of the first
 * client's rings. */
#include <unistd.h>

#include "client.h"
#include "base/internal.h"

enum { REQUESTS = 5, STREAM = 3 };

static tessera_kernel_entry choose(uint64_t kernel) {
  (void)kernel;
  return NULL;
}

static void serve_one_client(void) {
  static client c;
  client_open(&c);
  worker_start(1, choose);
  for (int i = 0; i < REQUESTS; i++) {
    tessera_slot slot = client_slot(&c, STREAM, TESSERA_OPCODE_NOP);
    client_put(&c, STREAM, &slot);
  }
  CHECK(client_wait(&c, STREAM, REQUESTS) == 0);
  tessera_worker_stop();
}

int main(void) {
  alarm(60); /* a lost request would be waited for forever */
  tw.aperture_base = TESSERA_GUARD_BEFORE_BYTES;
  for (int i = 0; i < 2; i++) serve_one_client();
  printf("ok\n");
  return 0;
}
