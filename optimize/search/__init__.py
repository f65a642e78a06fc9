"""The optimizer contract and what optimizers work on."""
