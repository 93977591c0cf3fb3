/* cooperative_groups/operators.h: the operators of reductions and scans. Part of
 * cooperative_groups.h, which includes it. */
#ifndef TESSERA_COOPERATIVE_GROUPS_OPERATORS_H
#define TESSERA_COOPERATIVE_GROUPS_OPERATORS_H

namespace cooperative_groups {
namespace __v1 {
#define TESSERA_OPERATOR(name, expression)                             \
  template <class T = void>                                            \
  struct name {                                                        \
    TESSERA_CG T operator()(T a, T b) const { return expression; }     \
  };
TESSERA_OPERATOR(plus, a + b)
TESSERA_OPERATOR(less, b < a ? b : a)
TESSERA_OPERATOR(greater, a < b ? b : a)
TESSERA_OPERATOR(bit_and, a &b)
TESSERA_OPERATOR(bit_or, a | b)
TESSERA_OPERATOR(bit_xor, a ^ b)
#undef TESSERA_OPERATOR
}  // namespace __v1
}  // namespace cooperative_groups

#endif
