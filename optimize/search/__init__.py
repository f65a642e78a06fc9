"""The optimiser contract and what optimisers work on."""
