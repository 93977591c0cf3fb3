/* A program's context whose hcad has ended: the first call that notices it prints a message,
 * once. usage: lost ring|look|ask */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command/command.h"
#include "objects.h"

int main(int count, char **arguments) {
  static struct tsr_context context;
  static tessera_hca_client_page page = {.sleeping = 1};
  int sockets[2], doorbell[2];
  if (count != 2 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || pipe(doorbell)) return 2;
  pthread_mutex_init(&context.asking, NULL);
  context.page = &page;
  context.socket = sockets[0];
  context.doorbell_fd = doorbell[1];
  close(sockets[1]);
  close(doorbell[0]);
  for (int i = 0; i < 2; i++) {
    if (!strcmp(arguments[1], "ring")) tsr_ring(&context, 0);
    if (!strcmp(arguments[1], "look")) tsr_is_dead(&context);
    if (!strcmp(arguments[1], "ask")) tsr_ask_handle(&context, TESSERA_HCA_MESSAGE_CQ_DESTROY, 1);
  }
  printf("dead %d\n", tsr_is_dead(&context));
  return 0;
}
