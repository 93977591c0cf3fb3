/* Symbols that are in several version nodes. The linker drops a symbol that only the version
 * script assigns to a node. So such a symbol is defined under another name, which the script
 * keeps local. */
#ifndef TSR_SYMBOL_NODES_H
#define TSR_SYMBOL_NODES_H

/* Write this after the declaration. */
#define TSR_OF_NODES(symbol) __asm__("tsr_node_" #symbol)

/* Write this after the definition. It names the node that programs are linked with, and the
 * other nodes. */
#define TSR_FIRST_IN(symbol, node) __asm__(".symver tsr_node_" #symbol ", " #symbol "@@" #node);
#define TSR_ALSO_IN(symbol, node)                                                         \
  extern __typeof__(symbol) tsr_##symbol##_##node                                         \
      __attribute__((alias("tsr_node_" #symbol), visibility("default")));                 \
  __asm__(".symver tsr_" #symbol "_" #node ", " #symbol "@" #node);

#endif
