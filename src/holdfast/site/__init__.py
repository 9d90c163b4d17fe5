"""Pages made from a store: one self-contained file each, without torch, weights, images or a network."""
