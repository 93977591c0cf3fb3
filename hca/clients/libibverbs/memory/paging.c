/* On-demand paging. The pages of these regions, too, are replaced at registration, so that no
 * request faults. advise.c updates a region to what the program has mapped in its range since. */
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
