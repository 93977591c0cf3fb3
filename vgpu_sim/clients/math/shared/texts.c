#include "texts.h"

#include "status_table.h"

static const struct tsr_status *find(int code) {
  for (size_t i = 0; i < tsr_status_count; ++i)
    if (tsr_statuses[i].code == code) return &tsr_statuses[i];
  return 0;
}

const char *tsr_status_name(int code, const char *unknown) {
  const struct tsr_status *found = find(code);
  return found ? found->name : unknown;
}

const char *tsr_status_text(int code, const char *unknown) {
  const struct tsr_status *found = find(code);
  return found ? found->text : unknown;
}
