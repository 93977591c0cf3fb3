#include "callbacks/log_lines.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "log.h"

enum { MOST_LISTENERS = 64 };
#define CUT "(older messages are missing)\n"
enum { CUT_BYTES = sizeof CUT - 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the fields below */
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static char lines[TSR_LOG_BYTES];
static size_t used;             /* bytes of lines */
static CUlogIterator first, next; /* the numbers of the first line, and of the next message */
static struct listener {
  CUlogsCallback function; /* NULL: free */
  void *data;
  uint64_t serial; /* the handle, never used again */
  unsigned running; /* threads in the function */
} listeners[MOST_LISTENERS];
static uint64_t serials;

/* Whether the thread is in a listener, whose own messages are only kept. */
static __thread bool listening;

static size_t line_bytes(const char *line) { return (size_t)(strchr(line, '\n') - line) + 1; }

static void keep(const char *message, size_t bytes) {
  size_t dropped = 0;
  while (used - dropped + bytes >= sizeof lines) {
    dropped += line_bytes(lines + dropped);
    first++;
  }
  memmove(lines, lines + dropped, used - dropped);
  used -= dropped;
  memcpy(lines + used, message, bytes + 1);
  used += bytes;
  next++;
}

/* A message is one line, also if a name in it contains a newline. */
static void read_message(char *message, size_t bytes) {
  for (size_t i = 0; i + 1 < bytes; i++)
    if (message[i] == '\n') message[i] = ' ';
  pthread_mutex_lock(&lock);
  keep(message, bytes);
  for (size_t i = 0; i < MOST_LISTENERS && !listening; i++) {
    struct listener *one = &listeners[i];
    if (!one->function) continue;
    const CUlogsCallback function = one->function;
    char copy[TSR_LOG_LINE_BYTES];
    memcpy(copy, message, bytes + 1);
    one->running++;
    pthread_mutex_unlock(&lock);
    listening = true;
    function(one->data, CU_LOG_LEVEL_ERROR, copy, bytes);
    listening = false;
    pthread_mutex_lock(&lock);
    one->running--;
    pthread_cond_broadcast(&returned);
  }
  pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) { tsr_log_copy_to(read_message); }

CUlogIterator tsr_log_next(void) {
  pthread_mutex_lock(&lock);
  const CUlogIterator found = next;
  pthread_mutex_unlock(&lock);
  return found;
}

size_t tsr_log_read(CUlogIterator from, char *buffer, size_t room, CUlogIterator *after,
                     bool *none_fits) {
  *none_fits = false;
  if (room) *buffer = '\0';
  pthread_mutex_lock(&lock);
  bool cut = from < first;
  const char *begin = lines;
  for (CUlogIterator at = first; at < from && begin < lines + used; at++) begin += line_bytes(begin);
  size_t bytes = (size_t)(lines + used - begin);
  const bool any = bytes != 0;
  while (bytes && (cut ? CUT_BYTES : 0) + bytes + 1 > room) {
    cut = true;
    begin += line_bytes(begin);
    bytes = (size_t)(lines + used - begin);
  }
  size_t written = 0;
  if (bytes) {
    if (cut) memcpy(buffer, CUT, CUT_BYTES);
    written = cut ? CUT_BYTES : 0;
    memcpy(buffer + written, begin, bytes);
    written += bytes;
    buffer[written] = '\0';
  }
  *none_fits = any && !bytes;
  *after = next;
  pthread_mutex_unlock(&lock);
  return written;
}

bool tsr_log_listen(CUlogsCallback function, void *data, CUlogsCallbackHandle *handle) {
  pthread_mutex_lock(&lock);
  struct listener *found = NULL;
  for (size_t i = 0; i < MOST_LISTENERS && !found; i++)
    if (!listeners[i].function && !listeners[i].running) found = &listeners[i];
  if (found) {
    *found = (struct listener){.function = function, .data = data, .serial = ++serials};
    if (handle) *handle = (CUlogsCallbackHandle)(uintptr_t)found->serial;
  }
  pthread_mutex_unlock(&lock);
  return found != NULL;
}

bool tsr_log_ignore(CUlogsCallbackHandle handle) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < MOST_LISTENERS && !found; i++) {
    struct listener *one = &listeners[i];
    if (!one->function || one->serial != (uint64_t)(uintptr_t)handle) continue;
    found = true;
    one->function = NULL;
    while (one->running && !listening) pthread_cond_wait(&returned, &lock);
  }
  pthread_mutex_unlock(&lock);
  return found;
}
