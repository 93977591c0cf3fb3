/* The client's threads of all_orders.c. */
#include "schedules.h"

#include "all_orders.h"
#include "exchange/ring.h"
#include "exchange/wait.h"

char **scripts;
static struct tsr_context context;
static uint32_t at_work; /* threads */

static void send(uint32_t stream, bool takes_long) {
  struct tsr_request request;
  tsr_ring_lock(&request, &context, stream);
  tsr_ring_begin(&request, TESSERA_OPCODE_NOP, 0, NULL);
  is_long[request.slot->order] = takes_long;
  tsr_ring_commit(&request);
}

static void *client_main(void *script) {
  for (const char *now = script; *now; now++) {
    if (*now == 'w')
      tsr_wait_all(&context);
    else if (*now == 'a' || *now == 'b')
      send((uint32_t)(*now - 'a'), true);
    else
      send((uint32_t)(*now - '0'), false);
  }
  tsr_wait_all(&context);
  for (uint32_t i = 0; i < STREAMS; i++)
    if (scripts[1] == NULL && !tsr_stream_idle(&context, i))
      end_run("a stream is busy though its thread has waited for all");
  if (__atomic_sub_fetch(&at_work, 1, __ATOMIC_SEQ_CST) == 0) end_run(NULL);
  return NULL;
}

void start_clients(void) {
  context.area = area;
  context.page = page;
  tsr_ring_setup(&context);
  area->stream_limit = STREAMS;
  atomic_store(&context.blocking[0], 2);
  for (char **script = scripts; *script; script++, at_work++)
    pthread_create(NULL, NULL, client_main, *script);
}
