#include "exchange/request.h"

#include <string.h>

#include "exchange/health.h"

CUresult tsr_hello_result(enum tsr_outcome outcome, int32_t status) {
  if (outcome == TSR_RECEIVED) return (CUresult)status;
  return outcome == TSR_MALFORMED ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_ERROR_NO_DEVICE;
}

/* A thread that waits for a reply; allocated on its stack. */
struct tsr_question {
  struct tsr_question *next;
  struct tsr_reply *reply;
  uint32_t request;
  uint16_t type; /* of the awaited reply */
  bool over;
  enum tsr_outcome outcome;
};

static void end(struct tsr_question *question, enum tsr_outcome outcome) {
  question->over = true;
  question->outcome = outcome;
}

/* Pass a reply to the thread that waits for it. If no thread does, this is a protocol error,
 * which all get. Under the lock. */
static enum tsr_outcome deliver(struct tsr_context *context, uint16_t type, uint32_t request,
                                struct tsr_reply *reply) {
  for (struct tsr_question *one = context->questions; one; one = one->next) {
    if (one->request != request || one->type != type || one->over) continue;
    if (one->reply != reply) {
      memcpy(one->reply, reply, sizeof *reply);
      for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
    }
    end(one, TSR_RECEIVED);
    return TSR_RECEIVED;
  }
  tsr_reply_close(reply);
  return TSR_MALFORMED;
}

/* Read one reply, without the lock, on behalf of all waiters. */
static void read_one(struct tsr_context *context, struct tsr_question *mine) {
  uint16_t type = 0;
  uint32_t request = 0;
  context->reading = true;
  pthread_mutex_unlock(&context->request_lock);
  enum tsr_outcome outcome = tsr_receive(context->socket, &type, &request, mine->reply);
  pthread_mutex_lock(&context->request_lock);
  context->reading = false;
  if (outcome == TSR_RECEIVED) outcome = deliver(context, type, request, mine->reply);
  for (struct tsr_question *one = context->questions; one && outcome != TSR_RECEIVED; one = one->next)
    if (!one->over) end(one, outcome);
  pthread_cond_broadcast(&context->answered);
}

static void withdraw(struct tsr_context *context, const struct tsr_question *mine) {
  struct tsr_question **link = &context->questions;
  while (*link != mine) link = &(*link)->next;
  *link = mine->next;
  pthread_cond_broadcast(&context->answered);
}

CUresult tsr_ask(struct tsr_context *context, uint16_t type, const void *payload, uint32_t bytes,
                 int pass_fd, struct tsr_reply *reply) {
  for (unsigned i = 0; i < TSR_MAX_FDS; i++) reply->fds[i] = -1;
  pthread_mutex_lock(&context->request_lock);
  CUresult result = tsr_context_error(context);
  if (result == CUDA_SUCCESS) {
    struct tsr_question mine = {.next = context->questions,
                                .reply = reply,
                                .request = ++context->request,
                                .type = (uint16_t)(type + 1)};
    context->questions = &mine;
    if (!tsr_send(context->socket, type, mine.request, payload, bytes, pass_fd))
      end(&mine, TSR_CLOSED);
    while (!mine.over) {
      if (context->reading)
        pthread_cond_wait(&context->answered, &context->request_lock);
      else
        read_one(context, &mine);
    }
    withdraw(context, &mine);
    result = mine.outcome == TSR_RECEIVED ? (CUresult)reply->status : tsr_context_lose(context);
  }
  pthread_mutex_unlock(&context->request_lock);
  return result;
}

void tsr_finish_questions(struct tsr_context *context) {
  pthread_mutex_lock(&context->request_lock);
  while (context->questions) pthread_cond_wait(&context->answered, &context->request_lock);
  pthread_mutex_unlock(&context->request_lock);
}
