"""One run beside another: answers paired by question, differences with their intervals, and what else differs."""
