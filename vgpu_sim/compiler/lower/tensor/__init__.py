"""tcgen05: tensor memory, and the products in it (PTX ISA, "TensorCore 5th Generation")."""
