#include "base/table.h"

#include <stdlib.h>

enum { FIRST_ROOM = 64 };

static uint32_t home(const struct hca_table *table, uint32_t key) {
  return key * UINT32_C(2654435769) >> 7 & (table->room - 1);
}

static uint32_t place(const struct hca_table *table, uint32_t key) {
  uint32_t i = home(table, key);
  while (table->keys[i] != 0 && table->keys[i] != key) i = (i + 1) & (table->room - 1);
  return i;
}

void *hca_table_get(const struct hca_table *table, uint32_t key) {
  if (table->room == 0 || key == 0) return NULL;
  const uint32_t i = place(table, key);
  return table->keys[i] == key ? table->values[i] : NULL;
}

static bool grow(struct hca_table *table) {
  struct hca_table larger = {.room = table->room ? table->room * 2 : FIRST_ROOM,
                             .count = table->count};
  larger.keys = calloc(larger.room, sizeof *larger.keys);
  larger.values = calloc(larger.room, sizeof *larger.values);
  if (!larger.keys || !larger.values) {
    hca_table_free(&larger);
    return false;
  }
  for (uint32_t i = 0; i < table->room; i++) {
    if (table->keys[i] == 0) continue;
    const uint32_t at = place(&larger, table->keys[i]);
    larger.keys[at] = table->keys[i];
    larger.values[at] = table->values[i];
  }
  hca_table_free(table);
  *table = larger;
  return true;
}

bool hca_table_put(struct hca_table *table, uint32_t key, void *value) {
  if (table->count >= table->room / 2 && !grow(table)) return false;
  const uint32_t i = place(table, key);
  table->keys[i] = key;
  table->values[i] = value;
  table->count++;
  return true;
}

void hca_table_remove(struct hca_table *table, uint32_t key) {
  if (hca_table_get(table, key) == NULL) return;
  uint32_t hole = place(table, key);
  table->count--;
  /* Close the gap, so that probing still finds every key from its home slot. */
  for (uint32_t i = (hole + 1) & (table->room - 1); table->keys[i] != 0;
       i = (i + 1) & (table->room - 1)) {
    const uint32_t distance = (i - home(table, table->keys[i])) & (table->room - 1);
    if (distance < ((i - hole) & (table->room - 1))) continue;
    table->keys[hole] = table->keys[i];
    table->values[hole] = table->values[i];
    hole = i;
  }
  table->keys[hole] = 0;
  table->values[hole] = NULL;
}

void hca_table_free(struct hca_table *table) {
  free(table->keys);
  free(table->values);
  *table = (struct hca_table){0};
}
