/* A hash table from non-zero 32-bit numbers to objects (open addressing). */
#ifndef HCA_TABLE_H
#define HCA_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct hca_table {
  uint32_t *keys; /* 0: free */
  void **values;
  uint32_t room, count; /* room is a power of two, or 0 */
};

void *hca_table_get(const struct hca_table *table, uint32_t key);
/* Add a key that is not in the table. False without memory. */
bool hca_table_put(struct hca_table *table, uint32_t key, void *value);
void hca_table_remove(struct hca_table *table, uint32_t key);
void hca_table_free(struct hca_table *table);

#endif
