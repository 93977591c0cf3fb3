/* cooperative_groups/invoke.h: calls by one thread of a group. Part of cooperative_groups.h, which
 * includes it. */
#ifndef TESSERA_COOPERATIVE_GROUPS_INVOKE_H
#define TESSERA_COOPERATIVE_GROUPS_INVOKE_H

namespace cooperative_groups {
namespace __v1 {
/* Calls a function in one thread of the group; returns its result in all of them. */
template <class Group, class Function, class... Arguments>
static TESSERA_CG void invoke_one(const Group &group, Function &&function,
                                  Arguments &&...arguments) {
  if (group.thread_rank() == 0) function(static_cast<Arguments &&>(arguments)...);
}
template <class Group, class Function, class... Arguments>
static TESSERA_CG auto invoke_one_broadcast(const Group &group, Function &&function,
                                            Arguments &&...arguments)
    -> decltype(function(static_cast<Arguments &&>(arguments)...)) {
  decltype(function(static_cast<Arguments &&>(arguments)...)) result{};
  if (group.thread_rank() == 0) result = function(static_cast<Arguments &&>(arguments)...);
  return group.shfl(result, 0);
}
}  // namespace __v1
}  // namespace cooperative_groups

#endif
