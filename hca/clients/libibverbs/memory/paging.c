/* On-demand paging. Pages of these regions, too, are replaced when they are registered, so that no
 * request faults. advise.c has them follow what was mapped in their place. */
#include "memory/paging.h"

void tsr_paging_add(struct tsr_context *context, struct tsr_mr *mr) {
  if (!(mr->access & IBV_ACCESS_ON_DEMAND)) return;
  mr->next_paged = context->paged;
  context->paged = mr;
}

void tsr_paging_remove(struct tsr_context *context, struct tsr_mr *mr) {
  for (struct tsr_mr **link = &context->paged; *link; link = &(*link)->next_paged)
    if (*link == mr) {
      *link = mr->next_paged;
      return;
    }
}
