/* Symbols that are in several version nodes. The linker drops what is in one of them by its script
 * alone, so such a symbol has another name where it is defined, which the script keeps inside. */
#ifndef TSR_SYMBOL_NODES_H
#define TSR_SYMBOL_NODES_H

/* Stands behind the declaration. */
#define TSR_OF_NODES(symbol) __asm__("tsr_node_" #symbol)

/* Stand behind the definition: the node that programs are linked with, and the others. */
#define TSR_FIRST_IN(symbol, node) __asm__(".symver tsr_node_" #symbol ", " #symbol "@@" #node);
#define TSR_ALSO_IN(symbol, node)                                                         \
  extern __typeof__(symbol) tsr_##symbol##_##node                                         \
      __attribute__((alias("tsr_node_" #symbol), visibility("default")));                 \
  __asm__(".symver tsr_" #symbol "_" #node ", " #symbol "@" #node);

#endif
