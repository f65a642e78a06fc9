"""Executors of samples: in this process (`local`); others implement the same contract."""
